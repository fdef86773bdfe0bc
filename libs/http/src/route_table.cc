// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/route_table.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "shown_text.h"

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

// "application/json" and "application/x+json", with or without parameters.
bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  constexpr std::string_view kSuffix = "+json";
  std::string_view type = content_type.substr(0, content_type.find(';'));
  type = type.substr(0, type.find_last_not_of(" \t") + 1);
  return equal_ignoring_case(type, kJson) ||
         (type.size() > kSuffix.size() &&
          equal_ignoring_case(type.substr(type.size() - kSuffix.size()), kSuffix));
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

void RouteTable::add_instead(std::string path, std::string other) {
  instead_[std::move(path)] = std::move(other);
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

// Whoever has left out the first part of a path, or has it twice, or ends it with a slash, means
// the rest.
std::string RouteTable::nearest(std::string_view path) const {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  for (const auto& [known, other] : instead_) {
    const bool is_below = path.starts_with(known + "/");
    if (is_below || (path.size() > 1 && (known.ends_with(path) || path.ends_with(known)))) {
      return other;
    }
  }
  std::string found;
  for (const auto& [known, methods] : exact_) {
    const bool is_meant = path.size() > 1 && (known.ends_with(path) || path.ends_with(known));
    if (is_meant && (found.empty() || known.size() < found.size())) {
      found = known;
    }
  }
  return found;
}

void RouteTable::operator()(Request request, std::shared_ptr<Exchange> exchange) const {
  const Methods* methods = find(request.path);
  if (methods == nullptr) {
    const std::string near = nearest(request.path);
    exchange->respond(format_error_(404,
                                    "no such page: " + request.method + " " +
                                        shown_text(request.path) +
                                        (near.empty() ? "" : "; there is " + near)));
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

Handler json_bodies_only(RouteTable::ErrorFormat format_error, Handler handler) {
  return [format_error = std::move(format_error), handler = std::move(handler)](
             Request request, std::shared_ptr<Exchange> exchange) {
    const std::string* coding = request.headers.find("content-encoding");
    if (coding != nullptr && !request.body.empty() && !equal_ignoring_case(*coding, "identity")) {
      exchange->respond(format_error(415,
                                     "expected a body without content-encoding, came \"" +
                                         shown_text(*coding) + "\"; send it as it is"));
      return;
    }
    const std::string* type = request.headers.find("content-type");
    if (type == nullptr || request.body.empty() || is_json(*type)) {
      handler(std::move(request), std::move(exchange));
      return;
    }
    std::string message =
        "expected a body of content-type application/json, came \"" + shown_text(*type) + "\"";
    if (type->starts_with("application/x-www-form-urlencoded")) {
      message += ", which is what curl -d says by itself";
    }
    message += "; send the header \"content-type: application/json\"";
    exchange->respond(format_error(415, message));
  };
}

}  // namespace phalanx::http
