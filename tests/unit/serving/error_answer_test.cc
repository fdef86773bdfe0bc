// SPDX-License-Identifier: Apache-2.0
#include "error_answer.h"

#include <gtest/gtest.h>

#include "phalanx/serving/api_routes.h"

namespace phalanx::serving {
namespace {

std::string header(const http::Response& response, std::string_view name) {
  const std::string* const value = response.headers.find(name);
  return value == nullptr ? "" : *value;
}

// SDKs try again after every 500 and above that does not say otherwise.
TEST(ErrorAnswer, SaysWhereTryingAgainIsInVain) {
  const auto poisoned = error_answer(openai::from_error(Error(Code::kPoisoned, "it kills")));
  EXPECT_EQ(poisoned.status, 500);
  EXPECT_EQ(header(poisoned, "x-should-retry"), "false");
  for (const int status : {500, 501, 505}) {
    EXPECT_EQ(header(error_response(status, "not here"), "x-should-retry"), "false") << status;
  }
  EXPECT_EQ(header(error_answer(openai::from_error(internal_error("once"))), "x-should-retry"), "");
  for (const int status : {400, 404, 429, 503, 504}) {
    EXPECT_EQ(header(error_response(status, "another time"), "x-should-retry"), "") << status;
  }
}

TEST(ErrorAnswer, SaysWhenToTryAgain) {
  EXPECT_EQ(header(error_answer(openai::from_error(unavailable("later"))), "retry-after"), "2");
  EXPECT_EQ(header(error_answer(openai::from_http_status(404, "nowhere")), "retry-after"), "");
}

}  // namespace
}  // namespace phalanx::serving
