// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/access_policy.h"

#include <algorithm>
#include <utility>

#include "phalanx/os/net_address.h"

#include "absolute_target.h"
#include "authority.h"
#include "characters.h"
#include "shown_text.h"

namespace phalanx::http {
namespace {

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

// Longer ones are cut where they are shown.
constexpr std::size_t kMaxAdvisedBytes = 100;

// What the flags take: of what a Host field may hold that which no shell makes something else of.
bool is_host_text(std::string_view text) {
  return is_authority(text) && std::all_of(text.begin(), text.end(), [](char c) {
           return is_alphanumeric(c) ||
                  std::string_view(".-_:[]%").find(c) != std::string_view::npos;
         });
}

bool is_scheme(std::string_view text) {
  return !text.empty() && !is_digit(text[0]) && std::all_of(text.begin(), text.end(), [](char c) {
    return is_alphanumeric(c) || std::string_view("+-.").find(c) != std::string_view::npos;
  });
}

// What is behind "scheme://", or nothing if the text is no origin.
std::optional<std::string_view> authority_of(std::string_view origin) {
  const std::size_t mark = origin.find("://");
  if (mark == std::string_view::npos || !is_scheme(origin.substr(0, mark)) ||
      !is_host_text(origin.substr(mark + 3))) {
    return std::nullopt;
  }
  return origin.substr(mark + 3);
}

// Pages out of files have a scheme and no host, or no origin at all.
bool is_origin(std::string_view origin) {
  const std::size_t mark = origin.find("://");
  return origin == "null" || (mark != std::string_view::npos && is_scheme(origin.substr(0, mark)) &&
                              (origin.size() == mark + 3 || is_authority(origin.substr(mark + 3))));
}

// "scheme://*". A page of the web has its host to be named by; what an application or an extension
// shows gets one that is drawn, often anew each time.
bool is_every_host_of_scheme(std::string_view entry) {
  constexpr std::string_view kEveryHost = "://*";
  if (!entry.ends_with(kEveryHost)) {
    return false;
  }
  const std::string_view scheme = entry.substr(0, entry.size() - kEveryHost.size());
  return is_scheme(scheme) && !equal_ignoring_case(scheme, "http") &&
         !equal_ignoring_case(scheme, "https");
}

bool is_origin_entry(std::string_view entry) {
  return entry == "*" || entry == "null" || authority_of(entry) || is_every_host_of_scheme(entry);
}

// What allows that origin, also when its host is drawn anew.
std::string entry_for(std::string_view origin) {
  const std::size_t end = origin.find("://");
  const std::string every_host = std::string(origin.substr(0, end)) + "://*";
  return end != std::string_view::npos && is_every_host_of_scheme(every_host) ? every_host
                                                                              : std::string(origin);
}

// How the server would be started for that name or origin, as a shell takes it; nothing if the flag
// would not.
std::string advice(std::string_view flag, std::string_view value, bool taken) {
  if (!taken || value.size() > kMaxAdvisedBytes) {
    return "";
  }
  const std::string_view quote = value.find('*') == std::string_view::npos ? "" : "'";
  std::string told = "; start it with ";
  return told.append(flag).append(" ").append(quote).append(value).append(quote);
}

// A host without the port that its scheme implies; a client may name it or not.
std::string_view without_default_port(std::string_view host, std::string_view origin) {
  const std::string_view port = origin.starts_with("https:") ? ":443" : ":80";
  return host.ends_with(port) ? host.substr(0, host.size() - port.size()) : host;
}

std::string_view without_trailing_dot(std::string_view name) {
  return name.ends_with('.') ? name.substr(0, name.size() - 1) : name;
}

// "NAME.localhost": nobody can register one, and resolvers and browsers make them loopback
// (RFC 6761).
bool is_below_localhost(std::string_view name) {
  constexpr std::string_view kEnd = ".localhost";
  return name.size() > kEnd.size() &&
         equal_ignoring_case(name.substr(name.size() - kEnd.size()), kEnd);
}

std::size_t count_of(const Headers& headers, std::string_view name) {
  return static_cast<std::size_t>(
      std::count_if(headers.fields().begin(), headers.fields().end(), [&](const auto& field) {
        return equal_ignoring_case(field.first, name);
      }));
}

// The authority of an absolute target stands above the Host field.
std::string host_of(const Request& head) {
  if (const auto authority = authority_of_target(head.target)) {
    return lowered(*authority);
  }
  const std::string* host = head.headers.find("host");
  return host == nullptr ? "" : lowered(*host);
}

}  // namespace

std::string_view host_name(std::string_view host) {
  if (host.starts_with('[')) {
    return host.substr(0, host.find(']') + 1);
  }
  return host.substr(0, host.find(':'));
}

bool is_loopback_name(std::string_view name) {
  if (name.starts_with('[') && name.ends_with(']')) {
    name = name.substr(1, name.size() - 2);
  }
  const std::string_view host = without_trailing_dot(name);
  if (equal_ignoring_case(host, "localhost") || is_below_localhost(host)) {
    return true;
  }
  return os::is_loopback_address(std::string(name));
}

Result<AccessPolicy> AccessPolicy::create(bool on_loopback,
                                          const std::vector<std::string>& allowed_hosts,
                                          const std::vector<std::string>& allowed_origins) {
  AccessPolicy policy;
  policy.on_loopback_ = on_loopback;
  for (const std::string& host : allowed_hosts) {
    if (host != "*" && !is_host_text(host)) {
      return invalid_argument(
          "--allowed-hosts: expected names or addresses, as in llm.example.org or "
          "llm.example.org:8000, or *; came \"" +
          shown_text(host) + "\"");
    }
    policy.allowed_hosts_.push_back(lowered(without_trailing_dot(host)));
  }
  for (const std::string& origin : allowed_origins) {
    if (!is_origin_entry(origin)) {
      return invalid_argument(
          "--allowed-origins: expected origins, as in https://chat.example.org, all of a scheme "
          "other than http and https, as in vscode-webview://*, or *; came \"" +
          shown_text(origin) + "\"");
    }
    policy.allowed_origins_.push_back(lowered(origin));
  }
  return policy;
}

bool AccessPolicy::serves_host(std::string_view host) const {
  if (!on_loopback_ && allowed_hosts_.empty()) {
    return true;
  }
  if (!is_authority(host)) {
    return false;
  }
  const std::string_view name = without_trailing_dot(host_name(host));
  if (is_loopback_name(name)) {
    return true;
  }
  return std::any_of(allowed_hosts_.begin(), allowed_hosts_.end(), [&](const std::string& entry) {
    return entry == "*" || entry == host || entry == name;
  });
}

bool AccessPolicy::serves_origin(std::string_view origin) const {
  if (!is_origin(origin)) {
    return false;
  }
  if (std::any_of(allowed_origins_.begin(), allowed_origins_.end(), [&](const std::string& entry) {
        return entry == "*" || entry == origin ||
               (is_every_host_of_scheme(entry) &&
                origin.starts_with(std::string_view(entry).substr(0, entry.size() - 1)));
      })) {
    return true;
  }
  const auto authority = authority_of(origin);
  return on_loopback_ && authority && is_loopback_name(host_name(*authority));
}

std::optional<RequestReader::Refusal> AccessPolicy::check(const Request& head) const {
  const std::string host = host_of(head);
  // Only HTTP/1.0 may come without a host, and no browser speaks it.
  if (!host.empty() && !serves_host(host)) {
    const std::string name(host_name(host));
    const std::string flag = advice("--allowed-hosts", name, is_host_text(host));
    return RequestReader::Refusal{
        421,
        "this server does not answer to the name \"" + shown_text(host) + "\"" + flag +
            (flag.empty() ? "" : " if it is meant to be reached by that name")};
  }
  const std::string* field = head.headers.find("origin");
  if (field == nullptr) {
    return std::nullopt;
  }
  if (count_of(head.headers, "origin") > 1) {
    return RequestReader::Refusal{403,
                                  "a request of a page must have one Origin field; came \"" +
                                      shown_text(*field) + "\" and another"};
  }
  const std::string origin = lowered(*field);
  const auto authority = authority_of(origin);
  const bool same =
      authority && without_default_port(*authority, origin) == without_default_port(host, origin);
  if (same || serves_origin(origin)) {
    return std::nullopt;
  }
  const std::string entry = entry_for(*field);
  const std::string flag =
      advice("--allowed-origins", entry, is_origin(origin) && is_origin_entry(entry));
  return RequestReader::Refusal{403,
                                "pages of the origin \"" + shown_text(*field) +
                                    "\" may not use this server" + flag +
                                    (flag.empty() ? "" : " if they are meant to")};
}

Headers AccessPolicy::fields_for(const Request& head) const {
  Headers fields;
  const std::string* origin = head.headers.find("origin");
  if (origin == nullptr) {
    return fields;
  }
  fields.add("access-control-allow-origin", *origin);
  fields.add("vary", "origin");
  fields.add("access-control-expose-headers",
             "x-request-id, retry-after, x-should-retry, x-phalanx-ignored-fields");
  if (head.method == "OPTIONS" && head.headers.find("access-control-request-method") != nullptr) {
    fields.add("access-control-allow-methods", "GET, HEAD, POST");
    const std::string* asked = head.headers.find("access-control-request-headers");
    if (asked != nullptr) {
      fields.add("access-control-allow-headers", *asked);
    }
    fields.add("access-control-max-age", "600");
  }
  return fields;
}

}  // namespace phalanx::http
