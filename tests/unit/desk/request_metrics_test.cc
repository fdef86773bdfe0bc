// SPDX-License-Identifier: Apache-2.0
#include "phalanx/desk/request_metrics.h"

#include <map>

#include <gtest/gtest.h>

#include "desk_fixture.h"

namespace phalanx::desk {
namespace {

class RequestMetricsTest : public DeskTest {
 protected:
  static constexpr const char* kLabels = R"(engine="0",model_name="m")";

  void refresh(std::uint64_t preemptions, std::uint32_t running) {
    wire::ReplicaStatus status;
    status.preemptions = preemptions;
    status.running = running;
    status.kv_blocks_total = 8;
    metrics_.refresh(router_, dispatcher_, {{ReplicaId(0), status}}, {});
  }
  [[nodiscard]] double preemptions() const { return series("vllm:num_preemptions_total", kLabels); }
};

TEST_F(RequestMetricsTest, CountsWhatAReplicaSaysOnceAndAnewWithTheNextOne) {
  refresh(3, 5);
  refresh(3, 2);
  EXPECT_EQ(preemptions(), 3);
  EXPECT_EQ(series("vllm:num_requests_running", kLabels), 2);
  refresh(7, 0);
  EXPECT_EQ(preemptions(), 7);
  metrics_.forget_replica(ReplicaId(0));
  refresh(1, 0);
  EXPECT_EQ(preemptions(), 1);
  EXPECT_NE(registry_.serialize().find("# TYPE vllm:num_preemptions_total counter"),
            std::string::npos);
}

TEST_F(RequestMetricsTest, AReplicaThatIsGoneDoesNotLookIdle) {
  refresh(3, 5);
  metrics_.forget_replica(ReplicaId(0));
  metrics_.refresh(router_, dispatcher_, {{ReplicaId(0), wire::ReplicaStatus()}}, {});
  EXPECT_EQ(registry_.serialize().find("vllm:num_requests_running{"), std::string::npos);
}

// Choices come at the same time.
TEST_F(RequestMetricsTest, TheTimePerTokenIsThatOfTheLongestChoice) {
  RequestRecord record;
  record.completion_tokens = 30;
  record.longest_choice = 11;
  record.duration = std::chrono::seconds(10);
  metrics_.on_request_end(record);
  EXPECT_EQ(series("vllm:request_time_per_output_token_seconds_sum", R"(model_name="m")"), 1);
}

TEST_F(RequestMetricsTest, TheTimeOfDecodingBeginsWithTheFirstToken) {
  RequestRecord record;
  record.duration = std::chrono::seconds(9);
  metrics_.on_request_end(record);
  const auto value = [&](const std::string& name) { return series(name, R"(model_name="m")"); };
  EXPECT_EQ(value("vllm:request_decode_time_seconds_count"), 0) << "there was none";
  record.time_to_first_token = std::chrono::seconds(2);
  record.completion_tokens = 30;
  record.longest_choice = 11;
  metrics_.on_request_end(record);
  EXPECT_EQ(value("vllm:request_decode_time_seconds_count"), 1);
  EXPECT_EQ(value("vllm:request_decode_time_seconds_sum"), 7);
  EXPECT_EQ(value("vllm:request_max_num_generation_tokens_sum"), 11);
  EXPECT_EQ(value("vllm:request_generation_tokens_sum"), 30);
}

}  // namespace
}  // namespace phalanx::desk
