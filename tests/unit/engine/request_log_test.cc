// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/request_log.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/obs/log.h"

namespace phalanx::engine {
namespace {

constexpr wire::SequenceKey kKey{RequestId(7), ChoiceIndex(1), Attempt(2)};

class RequestLogTest : public testing::Test {
 protected:
  void begin() {
    wire::Submit submit;
    submit.key = kKey;
    submit.prompt_ids = {1, 2};
    log_.began(submit, kBegin);
  }

  static constexpr SteadyTime kBegin{std::chrono::hours(1)};
  RequestLog log_;
};

TEST_F(RequestLogTest, NamesASequenceByAWordThatTheLeaderDoesNotUseForARequest) {
  obs::set_log_level(obs::LogLevel::kInfo);
  begin();
  obs::set_log_level(obs::LogLevel::kWarn);
  const std::string line = obs::recent_log_lines().back();
  EXPECT_NE(line.find("request_start sequence=7.1#2 "), std::string::npos) << line;
  EXPECT_EQ(line.find("req="), std::string::npos) << line;
}

}  // namespace
}  // namespace phalanx::engine
