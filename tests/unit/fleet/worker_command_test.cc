// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/worker_command.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::fleet {
namespace {

using Words = std::vector<std::string>;

WorkerWrapper parsed(const std::string& text) {
  auto wrapper = parse_worker_wrapper(text);
  EXPECT_TRUE(wrapper) << text << ": " << wrapper.error().message();
  return wrapper ? *std::move(wrapper) : WorkerWrapper{};
}

bool has_variable(const os::SpawnPlan& plan, const std::string& name) {
  return std::any_of(plan.environment.begin(), plan.environment.end(), [&](const std::string& one) {
    return one.starts_with(name + "=");
  });
}

TEST(WorkerWrapper, SelectsOneRankOrMany) {
  const WorkerWrapper one = parsed("rank:dp0.tp1=valgrind");
  EXPECT_TRUE(one.selects(ReplicaId(0), RankId(1)));
  EXPECT_FALSE(one.selects(ReplicaId(0), RankId(0)));
  EXPECT_FALSE(one.selects(ReplicaId(1), RankId(1)));
  EXPECT_FALSE(one.selects(ReplicaId(0))) << "no replica";
  const WorkerWrapper some = parsed("rank:dp12=valgrind");
  EXPECT_TRUE(some.selects(ReplicaId(12), RankId(3)));
  EXPECT_FALSE(some.selects(ReplicaId(1), RankId(3)));
  for (const char* text : {"rank=valgrind", "rank:*=valgrind"}) {
    EXPECT_TRUE(parsed(text).selects(ReplicaId(7), RankId(9))) << text;
  }
}

TEST(WorkerWrapper, SelectsReplicasAndTheLoader) {
  EXPECT_TRUE(parsed("replica:dp1=perf record").selects(ReplicaId(1)));
  EXPECT_FALSE(parsed("replica:dp1=perf record").selects(ReplicaId(0)));
  EXPECT_TRUE(parsed("replica=perf record").selects(ReplicaId(5)));
  EXPECT_FALSE(parsed("replica=perf record").selects(ReplicaId(5), RankId(0)));
  EXPECT_NE(loader_wrapper({parsed("rank=a"), parsed("loader=perf record")}), nullptr);
  EXPECT_EQ(loader_wrapper({parsed("rank=a"), parsed("replica=b")}), nullptr);
}

TEST(WorkerWrapper, TheLastThatSelectsAWorkerCounts) {
  const std::vector<WorkerWrapper> wrappers = {
      parsed("rank=a"), parsed("rank:dp0.tp1=b"), parsed("replica=c")};
  EXPECT_EQ(wrapper_of(wrappers, ReplicaId(0), RankId(1))->command_text(), "b");
  EXPECT_EQ(wrapper_of(wrappers, ReplicaId(0), RankId(0))->command_text(), "a");
  EXPECT_EQ(wrapper_of(wrappers, ReplicaId(0))->command_text(), "c");
  EXPECT_EQ(wrapper_of({}, ReplicaId(0)), nullptr);
}

TEST(WorkerWrapper, CutsTheCommandIntoWordsAsAShellDoes) {
  EXPECT_EQ(parsed("rank=valgrind  --tool=none -q ").command,
            (Words{"valgrind", "--tool=none", "-q"}));
  EXPECT_EQ(parsed(R"(rank=sh -c '"$@"; exit $?' --)").command,
            (Words{"sh", "-c", R"("$@"; exit $?)", "--"}));
  EXPECT_EQ(parsed(R"(rank=a "b \" c" d\ e '' f'g'h)").command,
            (Words{"a", "b \" c", "d e", "", "fgh"}));
}

TEST(WorkerWrapper, ABadOneIsRefusedInWords) {
  for (const char* text : {"",
                           "valgrind",
                           "=valgrind",
                           "rank:=valgrind",
                           "rank:dp=valgrind",
                           "rank:dp0.tp=valgrind",
                           "rank:dp0.tp1x=valgrind",
                           "rank:tp1=valgrind",
                           "rank:dp99999=valgrind",
                           "replica:dp0.tp1=valgrind",
                           "loader:*=valgrind",
                           "leader=valgrind",
                           "planner=valgrind",
                           "rank=",
                           "rank=   ",
                           "rank=''"}) {
    const auto wrapper = parse_worker_wrapper(text);
    ASSERT_FALSE(wrapper) << text;
    EXPECT_EQ(wrapper.error().code(), Code::kInvalidArgument);
    EXPECT_NE(wrapper.error().message().find("expected SELECTOR=COMMAND"), std::string::npos)
        << wrapper.error().message();
  }
  const auto open = parse_worker_wrapper("rank=sh -c 'exit");
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().message(), "the command has a ' without its end");
}

// What an os::HeldProgram of the leader names.
constexpr const char* kHeld = "/proc/7/fd/9";
const std::string kSelf(kOwnProgram);

TEST(WorkerPlan, OfAWorkerAloneIsItsProgramAndRole) {
  const os::SpawnPlan plan = worker_plan(WorkerRole::kPlanner, nullptr, kHeld);
  EXPECT_EQ(plan.program, kHeld);
  EXPECT_EQ(plan.arguments, (Words{kSelf, "worker", "planner"}))
      << "its children are what it is itself";
  EXPECT_TRUE(plan.environment.empty());
  EXPECT_FALSE(plan.leads_group);
  EXPECT_FALSE(plan.wrapped);
  EXPECT_TRUE(plan.holds_group_signals);
  EXPECT_EQ(worker_plan(WorkerRole::kRank, nullptr, kSelf).program, kSelf);
}

TEST(WorkerPlan, UnderAWrapperBeginsWithTheCommand) {
  const WorkerWrapper wrapper = parsed("rank=sh -c 'exec \"$@\"' --");
  const os::SpawnPlan plan = worker_plan(WorkerRole::kRank, &wrapper, kSelf);
  EXPECT_EQ(plan.program.substr(plan.program.rfind('/')), "/sh") << plan.program;
  const std::string own = "/proc/" + std::to_string(::getpid()) + "/exe";
  EXPECT_EQ(plan.arguments, (Words{"sh", "-c", "exec \"$@\"", "--", own, "worker", "rank"}))
      << "the wrapper's own /proc/self/exe is the wrapper";
  EXPECT_TRUE(plan.leads_group);
  EXPECT_TRUE(plan.wrapped);
  EXPECT_FALSE(plan.holds_group_signals) << "no tool begins with blocked signals";
  EXPECT_TRUE(has_variable(plan, "PATH"));
  EXPECT_EQ(worker_plan(WorkerRole::kRank, &wrapper, kHeld).arguments[4], kHeld)
      << "of a replica that is itself wrapped";
}

TEST(WorkerPlan, OfAReplicaCarriesTheWrappersOfItsRanks) {
  const std::vector<WorkerWrapper> wrappers = {
      parsed("rank:dp0.tp1=env A=1"), parsed("rank:dp1=env"), parsed("loader=env")};
  const os::SpawnPlan plan = replica_plan(wrappers, ReplicaId(0), kHeld);
  EXPECT_EQ(plan.program, kHeld);
  EXPECT_EQ(plan.arguments, (Words{kSelf, "worker", "replica", "rank:dp0.tp1=env A=1"}));
  EXPECT_FALSE(plan.leads_group);
  EXPECT_FALSE(plan.wrapped);
  EXPECT_TRUE(has_variable(plan, "PATH")) << "to hand on";
  EXPECT_TRUE(replica_plan({}, ReplicaId(0), kHeld).environment.empty());
  const os::SpawnPlan wrapped = replica_plan({parsed("replica=env")}, ReplicaId(0), kHeld);
  EXPECT_EQ(wrapped.arguments, (Words{"env", kHeld, "worker", "replica"}));
}

TEST(FindProgram, LooksInPathAndNamesWhatIsMissing) {
  EXPECT_TRUE(find_program("sh"));
  EXPECT_TRUE(find_program("/bin/sh"));
  EXPECT_EQ(find_program("no-such-tool").error().message(),
            "no-such-tool: no such program in PATH");
  EXPECT_EQ(find_program("/no/such/tool").error().message(), "/no/such/tool: no such program");
  const auto folder = find_program("/");
  ASSERT_FALSE(folder) << "which the system calls executable, too";
  EXPECT_EQ(folder.error().code(), Code::kNotFound);
  EXPECT_EQ(folder.error().message(), "/: no such program");
}

}  // namespace
}  // namespace phalanx::fleet
