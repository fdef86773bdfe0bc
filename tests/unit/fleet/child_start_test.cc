// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/child_start.h"

#include <optional>

#include <gtest/gtest.h>

namespace phalanx::fleet {
namespace {

TEST(LogOptions, NameTheProcessAndTakeTheLevelOfTheLeader) {
  wire::RankBootstrap rank;
  rank.common.log_level = "debug";
  rank.replica = ReplicaId(3);
  rank.rank = RankId(1);
  const obs::LogOptions of_rank = log_options(rank);
  EXPECT_EQ(of_rank.role, "rank");
  EXPECT_EQ(of_rank.dp, 3);
  EXPECT_EQ(of_rank.tp, 1);
  EXPECT_EQ(of_rank.level, obs::LogLevel::kDebug);

  wire::ReplicaBootstrap replica;
  replica.common.log_level = "error";
  replica.replica = ReplicaId(2);
  const obs::LogOptions of_replica = log_options(replica);
  EXPECT_EQ(of_replica.role, "replica");
  EXPECT_EQ(of_replica.dp, 2);
  EXPECT_EQ(of_replica.tp, std::nullopt);
  EXPECT_EQ(of_replica.level, obs::LogLevel::kError);

  wire::LoaderBootstrap loader;
  loader.common.log_level = "warning";
  const obs::LogOptions of_loader = log_options(loader);
  EXPECT_EQ(of_loader.role, "loader");
  EXPECT_EQ(of_loader.dp, std::nullopt);
  EXPECT_EQ(of_loader.level, obs::LogLevel::kWarn);

  wire::PlannerBootstrap planner;
  planner.common.log_level = "info";
  EXPECT_EQ(log_options(planner).role, "planner");

  wire::FrontBootstrap front;
  front.common.log_level = "trace";
  front.front = 1;
  const obs::LogOptions of_front = log_options(front);
  EXPECT_EQ(of_front.role, "front");
  EXPECT_EQ(of_front.dp, std::nullopt);
  EXPECT_EQ(of_front.tp, std::nullopt);
  EXPECT_EQ(of_front.level, obs::LogLevel::kTrace);
}

}  // namespace
}  // namespace phalanx::fleet
