// SPDX-License-Identifier: Apache-2.0
#include "target.h"

#include <algorithm>

#include "phalanx/base/printable.h"

#include "numbers.h"

namespace phalanx::load {
namespace {

// A URL has "[::1]" where the address is "::1".
Status remove_brackets(std::string* host) {
  const std::string came = *host;
  if (host->size() > 2 && host->starts_with('[') && host->ends_with(']')) {
    *host = host->substr(1, host->size() - 2);
  }
  if (host->empty() || host->find_first_of("[]") != std::string::npos) {
    return invalid_argument(
        "expected a name or an address, as in localhost, 127.0.0.1 or [::1], came \"" + came +
        "\"");
  }
  return ok();
}

// http://host[:port][/prefix]
Status apply_base_url(Options* o) {
  std::string_view url = o->base_url;
  const auto unexpected = [&](const std::string& hint) {
    return invalid_argument("--base-url: expected http://HOST:PORT" + hint + ", came \"" +
                            printable(o->base_url) + "\"");
  };
  if (!url.starts_with("http://")) {
    return unexpected("");
  }
  if (url.find_first_of("?#") != std::string_view::npos) {
    return unexpected(" without query or fragment");
  }
  url.remove_prefix(7);
  const std::size_t slash = std::min(url.find('/'), url.size());
  std::string prefix(url.substr(slash));
  while (prefix.ends_with('/')) {
    prefix.pop_back();
  }
  const std::string_view authority = url.substr(0, slash);
  if (authority.find('@') != std::string_view::npos) {
    return unexpected(" without a user (--header \"authorization: ...\" names one)");
  }
  for (const char* const path : {"/v1/chat/completions", "/v1/completions", "/v1/models"}) {
    if (prefix.ends_with(path)) {
      return unexpected(", the server's address without the endpoint " + std::string(path));
    }
  }
  if (prefix.ends_with("/v1") && o->endpoint.starts_with("/v1/")) {
    return unexpected(" without /v1, with which " + o->endpoint + " begins");
  }
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  o->host = authority.substr(0, colon);
  o->port = 80;
  if (colon != std::string_view::npos) {
    const auto port = parse_integer(std::string(authority.substr(colon + 1)), 1, 65535);
    if (!port) {
      return Error(port.error()).with("--base-url: port");
    }
    o->port = *port;
  }
  o->endpoint = prefix + o->endpoint;
  if (prefix.ends_with("/v1")) {
    prefix.resize(prefix.size() - 3);
  }
  o->model_list = prefix + o->model_list;
  return ok();
}

// It stands between two blanks in the first line of a request.
Status check_target(const std::string& target, const char* flag) {
  const bool is_path =
      target.starts_with('/') &&
      std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7F; });
  return is_path ? ok()
                 : invalid_argument(
                       std::string(flag) +
                       ": expected a path that begins with / and has neither blanks nor control "
                       "characters, came \"" +
                       printable(target) + "\"");
}

}  // namespace

Status apply_address(Options* o) {
  PHALANX_RETURN_IF_ERROR(check_target(o->endpoint, "--endpoint"));
  if (!o->base_url.empty()) {
    PHALANX_RETURN_IF_ERROR(apply_base_url(o));
    PHALANX_RETURN_IF_ERROR(check_target(o->endpoint, "--base-url"));
  }
  if (Status status = remove_brackets(&o->host); !status) {
    return std::move(status).error().with(o->base_url.empty() ? "--host" : "--base-url");
  }
  return ok();
}

// NAME: VALUE
Status add_headers(Options* o) {
  for (const std::string& header : o->headers) {
    // A line break would make two fields of it, or begin the body.
    if (const std::string shown = printable(header); shown != header) {
      return invalid_argument("--header: expected no control characters, came \"" + shown + "\"");
    }
    const std::size_t colon = header.find(':');
    const std::string name = header.substr(0, colon);
    if (colon == std::string::npos || !http::is_field_name(name)) {
      return invalid_argument("--header: expected \"NAME: VALUE\", came \"" + header + "\"");
    }
    for (const char* const framing : {"content-length", "transfer-encoding", "connection"}) {
      if (http::equal_ignoring_case(name, framing)) {
        return invalid_argument("--header: \"" + name +
                                "\" cannot be set: it says how requests are sent");
      }
    }
    const std::size_t value = header.find_first_not_of(' ', colon + 1);
    o->http_headers.add(name, value == std::string::npos ? "" : header.substr(value));
  }
  if (!o->http_headers.find("content-type")) {
    o->http_headers.add("content-type", "application/json");
  }
  return ok();
}

}  // namespace phalanx::load
