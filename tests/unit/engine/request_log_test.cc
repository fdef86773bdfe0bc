// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/request_log.h"

#include <chrono>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/obs/log.h"

namespace phalanx::engine {
namespace {

using std::chrono::milliseconds;

constexpr wire::SequenceKey kKey{RequestId(7), ChoiceIndex(1), Attempt(2)};

class RequestLogTest : public testing::Test {
 protected:
  // The update of a token that comes so long after the sequence began.
  wire::TokenUpdate token_after(Duration since_start) {
    wire::TokenUpdate update;
    update.key = kKey;
    update.has_token = true;
    log_.updated(&update, kBegin + since_start);
    return update;
  }
  void begin() {
    wire::Submit submit;
    submit.key = kKey;
    submit.prompt_ids = {1, 2};
    log_.began(submit, kBegin);
  }

  static constexpr SteadyTime kBegin{std::chrono::hours(1)};
  RequestLog log_;
};

TEST_F(RequestLogTest, TellsTheTimesOfAnAttemptWithItsFirstToken) {
  begin();
  log_.admitted(kKey, kBegin + milliseconds(20));
  log_.admitted(kKey, kBegin + milliseconds(40));  // again, behind a preemption
  const wire::TokenUpdate first = token_after(milliseconds(90));
  EXPECT_EQ(first.queue_us, 20'000U);
  EXPECT_EQ(first.prefill_us, 70'000U);
  const wire::TokenUpdate second = token_after(milliseconds(100));
  EXPECT_EQ(second.queue_us, 0U);
  EXPECT_EQ(second.prefill_us, 0U);
}

TEST_F(RequestLogTest, UpdatesWithoutATokenTellNoTimes) {
  begin();
  log_.admitted(kKey, kBegin + milliseconds(20));
  wire::TokenUpdate chunk;
  chunk.key = kKey;
  log_.updated(&chunk, kBegin + milliseconds(50));
  EXPECT_EQ(chunk.prefill_us, 0U);
  EXPECT_EQ(token_after(milliseconds(90)).prefill_us, 70'000U);
}

TEST_F(RequestLogTest, TellsATimeBeyondTheFieldAsTheMostItHolds) {
  begin();
  log_.admitted(kKey, kBegin + std::chrono::hours(2));
  EXPECT_EQ(token_after(std::chrono::hours(2)).queue_us, std::numeric_limits<std::uint32_t>::max());
}

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
