// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "phalanx/http/message.h"
#include "phalanx/http/route_table.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/serving/request_desk.h"
#include "phalanx/serving/served_model.h"

namespace phalanx::serving {

// What the API routes work with. Borrowed parts outlive the routes and every request.
struct ApiContext {
  const ServedModel& model;
  RequestDesk& desk;
  const Clock& clock;
  os::EventLoop& loop;

  // Runs `work` away from the loop and then `done` on the loop; false if its queue is full. Every
  // body is parsed, rendered and tokenized there, as how long that takes is the client's choice;
  // those above long_body_bytes are `is_long` and should not keep the others waiting.
  std::function<bool(bool is_long, std::function<void()> work, std::function<void()> done)>
      run_away;
  std::size_t long_body_bytes = std::size_t{16} << 10;
  bool strict_api = false;  // unknown fields are refused instead of ignored

  // Runs where a timer of a request begins to work for its connection and, with 0, behind that. May
  // be empty.
  std::function<void(std::uint64_t connection)> mark = {};
  std::function<std::uint64_t()> draw_seed = {};
  Duration first_comment = std::chrono::seconds(10);
};

// An error of the HTTP layer as the API shows errors.
[[nodiscard]] http::Response error_response(int status, const std::string& message);

// Adds /v1/chat/completions, /v1/completions, /v1/models, /tokenize and /detokenize.
void add_api_routes(http::RouteTable* routes, const ApiContext& context);

}  // namespace phalanx::serving
