// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/route_table.h"

#include <algorithm>
#include <utility>

namespace phalanx::http {
namespace {

template <typename Methods>
std::string allowed_methods(const Methods& methods) {
  std::string list = "OPTIONS";
  for (const auto& [method, handler] : methods) {
    list += ", " + method;
    if (method == "GET") {
      list += ", HEAD";
    }
  }
  return list;
}

}  // namespace

RouteTable::RouteTable(ErrorFormat format_error) : format_error_(std::move(format_error)) {}

void RouteTable::add(std::string method, std::string path, Handler handler) {
  if (!path.ends_with('*')) {
    exact_[std::move(path)][std::move(method)] = std::move(handler);
    return;
  }
  path.pop_back();
  auto place = std::find_if(
      prefixes_.begin(), prefixes_.end(), [&](const auto& entry) { return entry.first == path; });
  if (place == prefixes_.end()) {
    // Longest first, so that the first match is the longest.
    place = std::find_if(prefixes_.begin(), prefixes_.end(), [&](const auto& entry) {
      return entry.first.size() < path.size();
    });
    place = prefixes_.emplace(place, path, Methods{});
  }
  place->second[std::move(method)] = std::move(handler);
}

const RouteTable::Methods* RouteTable::find(const std::string& path) const {
  const auto exact = exact_.find(path);
  if (exact != exact_.end()) {
    return &exact->second;
  }
  for (const auto& [prefix, methods] : prefixes_) {
    if (path.starts_with(prefix)) {
      return &methods;
    }
  }
  return nullptr;
}

void RouteTable::operator()(Request request, std::shared_ptr<Exchange> exchange) const {
  const Methods* methods = find(request.path);
  if (methods == nullptr) {
    exchange->respond(format_error_(404, "no such page: " + request.method + " " + request.path));
    return;
  }
  auto route = methods->find(request.method);
  if (route == methods->end() && request.method == "HEAD") {
    route = methods->find("GET");
  }
  if (route != methods->end()) {
    route->second(std::move(request), std::move(exchange));
    return;
  }
  const std::string allowed = allowed_methods(*methods);
  Response response;
  if (request.method == "OPTIONS") {
    response.status = 204;
  } else {
    response =
        format_error_(405, request.path + " takes " + allowed + ", and not " + request.method);
  }
  response.headers.set("allow", allowed);
  exchange->respond(std::move(response));
}

}  // namespace phalanx::http
