// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/needs.h"

#include <gtest/gtest.h>

#include "source_dir.h"

namespace phalanx::model {
namespace {

MemoryRequest request_of(std::uint32_t ranks) {
  MemoryRequest request;
  request.ranks = ranks;
  request.limits = {0, 8, 64, 0};
  request.available_bytes = std::size_t{1} << 30;
  return request;
}

TEST(Needs, PlansTheMemoryOfEachRank) {
  const std::string tiny = std::string(PHALANX_SOURCE_DIR) + "/deploy/models/phalanx-tiny";
  auto found = checkpoint::inspect(tiny);
  ASSERT_TRUE(found.has_value()) << found.error().message();
  const std::optional<MemoryPlan> memory = needs_of(*found, request_of(3));
  EXPECT_TRUE(found->obstacles.empty());
  ASSERT_TRUE(memory.has_value());
  ASSERT_EQ(memory->ranks.size(), 3U);
  EXPECT_EQ(memory->limits.max_model_len, 4096U) << "the model's own";
  // 4 KV heads over 3 ranks: one has two.
  EXPECT_EQ(memory->ranks[2].kv, 2 * memory->ranks[0].kv);
}

TEST(Needs, NamesATopologyOrAMemoryThatDoesNotFit) {
  const std::string tiny = std::string(PHALANX_SOURCE_DIR) + "/deploy/models/phalanx-tiny";
  auto wide = checkpoint::inspect(tiny);
  ASSERT_TRUE(wide.has_value());
  EXPECT_FALSE(needs_of(*wide, request_of(5)).has_value());
  ASSERT_EQ(wide->obstacles.size(), 1U);
  EXPECT_EQ(wide->obstacles[0].part, "topology");
  MemoryRequest poor = request_of(1);
  poor.available_bytes = 1 << 20;
  auto large = checkpoint::inspect(tiny);
  ASSERT_TRUE(large.has_value());
  EXPECT_FALSE(needs_of(*large, poor).has_value());
  ASSERT_EQ(large->obstacles.size(), 1U);
  EXPECT_EQ(large->obstacles[0].part, "memory");
  EXPECT_EQ(large->obstacles[0].error.code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace phalanx::model
