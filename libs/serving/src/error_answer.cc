// SPDX-License-Identifier: Apache-2.0
#include "error_answer.h"

namespace phalanx::serving {

http::Response error_answer(const openai::ApiError& error) {
  http::Response response = http::json_response(error.http_status, openai::error_body(error));
  if (error.http_status == 503 || error.http_status == 429) {
    response.headers.set("retry-after", http::kRetryAfterSeconds);
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
