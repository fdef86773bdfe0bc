// SPDX-License-Identifier: Apache-2.0
#include "error_answer.h"

#include <string>

namespace phalanx::serving {

namespace {

constexpr int kRetryAfterSeconds = 2;

}  // namespace

http::Response error_answer(const openai::ApiError& error) {
  http::Response response = http::json_response(error.http_status, openai::error_body(error));
  if (error.http_status == 503 || error.http_status == 429) {
    response.headers.set("retry-after", std::to_string(kRetryAfterSeconds));
  }
  if (openai::is_final(error)) {
    response.headers.set("x-should-retry", "false");
  }
  return response;
}

void respond_error(http::Exchange& exchange, const openai::ApiError& error) {
  exchange.respond(error_answer(error));
}

}  // namespace phalanx::serving
