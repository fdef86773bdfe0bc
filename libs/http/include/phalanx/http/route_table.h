// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/http/exchange.h"

namespace phalanx::http {

// Finds the handler of a request by path and method. An unknown path is answered 404, a wrong
// method 405 with Allow, OPTIONS 204 with Allow; HEAD runs the GET handler (the server leaves the
// body out).
//
// Threads: the loop thread. Copyable; a copy of it is a Handler.
class RouteTable {
 public:
  using ErrorFormat = std::function<Response(int status, const std::string& message)>;

  // `format_error` as in ServerOptions.
  explicit RouteTable(ErrorFormat format_error);

  // `path` is exact; one that ends in '*' matches every path that begins with what is before it.
  // The longest match wins.
  void add(std::string method, std::string path, Handler handler);

  // Whoever asks for `path`, which there is not, for its end or for a path below it, is told that
  // there is `other`.
  void add_instead(std::string path, std::string other);

  void operator()(Request request, std::shared_ptr<Exchange> exchange) const;

 private:
  using Methods = std::map<std::string, Handler, std::less<>>;

  [[nodiscard]] const Methods* find(const std::string& path) const;
  [[nodiscard]] std::string nearest(std::string_view path) const;  // empty: none is like it

  ErrorFormat format_error_;
  std::map<std::string, Methods, std::less<>> exact_;
  std::vector<std::pair<std::string, Methods>> prefixes_;
  std::map<std::string, std::string, std::less<>> instead_;
};

// `handler` for bodies of JSON: one whose content-type is another is answered 415, which also keeps
// web pages of other origins from sending one without asking first. A body without a content-type
// is taken as JSON.
[[nodiscard]] Handler json_bodies_only(RouteTable::ErrorFormat format_error, Handler handler);

}  // namespace phalanx::http
