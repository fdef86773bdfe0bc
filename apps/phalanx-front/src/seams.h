// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "phalanx/http/server.h"
#include "phalanx/serving/api_routes.h"

namespace phalanx::app {

// Where a test program stands between a front and its parts. Each may be empty; in the
// shipped program all are. Loop thread, before the front is ready.
struct FrontSeams {
  std::function<http::ServerOptions(http::ServerOptions)> wrap_server;
  std::function<serving::ApiContext(serving::ApiContext)> wrap_api;  // what it names outlives all
  std::function<http::Handler(http::Handler)> wrap_handler;          // of all routes
  std::optional<std::uint32_t> max_work_seconds;  // of one piece of work of a pool
  // Of the prompts of the command line; what it returns outlives the front.
  std::function<serving::RequestDesk&(serving::RequestDesk&)> wrap_prompt_desk;
};

}  // namespace phalanx::app
