// SPDX-License-Identifier: Apache-2.0
#include "phalanx/settings/start_limits.h"

#include <gtest/gtest.h>

#include "phalanx/keeper/doors.h"

namespace phalanx::settings {
namespace {

using os::ProcessLimits;

std::string refusal(const ProcessLimits& limits, Options options = {}) {
  const Status status = apply_limits(limits, &options);
  if (status) {
    return "";
  }
  EXPECT_EQ(status.error().code(), Code::kResourceExhausted);
  return status.error().message();
}

TEST(StartLimits, NoLimitChangesNothing) {
  Options options;
  ASSERT_TRUE(apply_limits({}, &options));
  EXPECT_EQ(options.max_connections, Options().max_connections);
}

TEST(StartLimits, ConnectionsAreWhatOpenFilesLeave) {
  Options options;
  const std::uint64_t own = descriptors_without_clients(options);
  ProcessLimits limits;
  limits.open_files = own + 4096;
  ASSERT_TRUE(apply_limits(limits, &options));
  EXPECT_EQ(options.max_connections, 4096);
  limits.open_files = own + 100;
  testing::internal::CaptureStderr();
  ASSERT_TRUE(apply_limits(limits, &options));
  EXPECT_EQ(options.max_connections, 100);
  const std::string line = testing::internal::GetCapturedStderr();
  for (const std::string text : {"max_connections_lowered", "asked=4096", "max_connections=100"}) {
    EXPECT_NE(line.find(text), std::string::npos) << line;
  }
}

TEST(StartLimits, WhatIsOpenAlreadyIsNotThereForClients) {
  Options options;
  ProcessLimits limits;
  limits.open_files = descriptors_without_clients(options) + 400;
  limits.files_in_use = 3 + 250;
  testing::internal::CaptureStderr();
  ASSERT_TRUE(apply_limits(limits, &options));
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(options.max_connections, 150);
}

TEST(StartLimits, TooFewOpenFilesAreRefusedWithTheNeed) {
  Options options;
  options.dp = 3;
  ProcessLimits limits;
  limits.open_files = descriptors_without_clients(options) + kLeastConnections - 1;
  EXPECT_EQ(refusal(limits, options),
            "the limit of this process (ulimit -n) is 399 open files and 400 are needed for 3 × 1 "
            "processes and 8 connections: raise it with ulimit -n 4488");
  options.max_connections = 1;
  EXPECT_EQ(refusal(limits, options), "") << "fewer were asked for";
}

TEST(StartLimits, ClientsThatAreToldThatThereIsNoRoomTakeDescriptorsToo) {
  Options options;
  const std::uint64_t serving = descriptors_without_clients(options);
  options.prompts = {"one"};  // nobody listens
  EXPECT_EQ(serving - descriptors_without_clients(options), keeper::Doors::kMaxRefused);
  ProcessLimits limits;
  limits.open_files = descriptors_without_clients(options);
  const std::int64_t connections = options.max_connections;
  ASSERT_TRUE(apply_limits(limits, &options));
  EXPECT_EQ(options.max_connections, connections) << "there are none, and nothing to warn of";
}

TEST(StartLimits, LittleStackAddressSpaceOrFileSizeIsRefused) {
  ProcessLimits limits;
  limits.stack_bytes = kStackBytes - 1;
  EXPECT_NE(refusal(limits).find("raise it with ulimit -s 2048"), std::string::npos);
  limits = {};
  limits.address_space_bytes = kAddressSpaceBytes - 1;
  EXPECT_NE(refusal(limits).find("raise it with ulimit -v 1048576"), std::string::npos);
  limits = {};
  limits.file_bytes = kFileBytes - 1;
  EXPECT_NE(refusal(limits).find("raise it with ulimit -f 1024"), std::string::npos);
}

TEST(StartLimits, TheLoaderMustBeAbleToMapTheFiles) {
  wire::ServerPlan plan;
  plan.file_bytes = std::uint64_t{4} << 30;
  plan.weight_bytes = std::uint64_t{3} << 30;
  plan.rank_bytes = std::uint64_t{2} << 30;
  ProcessLimits limits;
  limits.address_space_bytes = std::uint64_t{8} << 30;
  EXPECT_TRUE(check_plan_fits(limits, plan));
  limits.address_space_bytes -= 1;
  EXPECT_FALSE(check_plan_fits(limits, plan));
}

TEST(StartLimits, ARankMustBeAbleToMapItsMemory) {
  wire::ServerPlan plan;
  plan.weight_bytes = std::uint64_t{3} << 30;
  plan.rank_bytes = std::uint64_t{2} << 30;
  ProcessLimits limits;
  EXPECT_TRUE(check_plan_fits(limits, plan));
  limits.address_space_bytes = std::uint64_t{6} << 30;
  EXPECT_TRUE(check_plan_fits(limits, plan));
  limits.address_space_bytes -= 1;
  EXPECT_FALSE(check_plan_fits(limits, plan));
  limits = {};
  limits.file_bytes = std::uint64_t{3} << 30;
  EXPECT_TRUE(check_plan_fits(limits, plan));
  limits.file_bytes -= 1;
  const Status status = check_plan_fits(limits, plan);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find("ulimit -f"), std::string::npos);
}

}  // namespace
}  // namespace phalanx::settings
