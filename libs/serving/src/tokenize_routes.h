// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "phalanx/http/exchange.h"
#include "phalanx/serving/api_routes.h"

#include "ignored_fields.h"

namespace phalanx::serving {

// The routes that only tokenize: admitted like the others, and answered away from the loop.
[[nodiscard]] http::Handler tokenize_route(const ApiContext& context,
                                           std::shared_ptr<IgnoredFields> seen);
[[nodiscard]] http::Handler detokenize_route(const ApiContext& context,
                                             std::shared_ptr<IgnoredFields> seen);

[[nodiscard]] bool is_long(const ApiContext& context, const http::Request& request);

// 503 while the queue of run_away is full.
[[nodiscard]] openai::ApiError too_many_to_read();

}  // namespace phalanx::serving
