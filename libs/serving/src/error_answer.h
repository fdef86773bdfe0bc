// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/http/exchange.h"
#include "phalanx/openai/api_error.h"

namespace phalanx::serving {

// The error as an answer of its own: with Retry-After where trying again makes sense, and where it
// never does, though the status is one after which SDKs try again by themselves, with what keeps
// them from it.
[[nodiscard]] http::Response error_answer(const openai::ApiError& error);

void respond_error(http::Exchange& exchange, const openai::ApiError& error);

}  // namespace phalanx::serving
