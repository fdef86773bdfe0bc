// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/http/message.h"
#include "phalanx/http/request_reader.h"

namespace phalanx::http {

// Which names a server answers to and which web pages may use it. Without it any page that a user
// of this machine opens could reach a server on loopback: by a name of its own that resolves to
// 127.0.0.1, or by posting across origins.
//
// Host    A server on loopback answers to loopback names (localhost, names below it, 127.0.0.0/8,
//         [::1], any port) and to `allowed_hosts`. Another answers to every name, or, if
//         `allowed_hosts` is not empty, to these and to loopback names.
// Origin  A request without one is no page's and is served. The origin of the host itself is
//         served, and on loopback every loopback origin; of the others those in `allowed_origins`.
//         What is no origin, or more than one, is not served.
//
// An entry of `allowed_hosts` is a name or address, with a port or for every port; one of
// `allowed_origins` is "scheme://host[:port]", "scheme://*" of a scheme other than http and https,
// or "null"; "*" allows all. Case does not matter.
//
// Threads: any, once it is made.
class AccessPolicy {
 public:
  AccessPolicy() = default;

  // Errors: kInvalidArgument naming the entry that is no host or origin
  [[nodiscard]] static Result<AccessPolicy> create(bool on_loopback,
                                                   const std::vector<std::string>& allowed_hosts,
                                                   const std::vector<std::string>& allowed_origins);

  // Nothing if the request may be served, else 421 or 403 with what to do. Reads only the head.
  [[nodiscard]] std::optional<RequestReader::Refusal> check(const Request& head) const;

  // What the answer to a request that passed check() must carry for the browser to show it to a
  // page of another origin; empty if there is none.
  [[nodiscard]] Headers fields_for(const Request& head) const;

 private:
  [[nodiscard]] bool serves_host(std::string_view host) const;
  [[nodiscard]] bool serves_origin(std::string_view origin) const;

  bool on_loopback_ = false;
  std::vector<std::string> allowed_hosts_;
  std::vector<std::string> allowed_origins_;
};

// "host", "host:port" or "[v6]:port" without its port: "localhost", "[::1]".
[[nodiscard]] std::string_view host_name(std::string_view host);

// localhost, NAME.localhost, 127.0.0.0/8 or [::1], without a port.
[[nodiscard]] bool is_loopback_name(std::string_view name);

}  // namespace phalanx::http
