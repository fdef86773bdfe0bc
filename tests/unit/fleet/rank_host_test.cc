// SPDX-License-Identifier: Apache-2.0
// What a dying rank sets off in its replica before anybody has time for it.
#include "phalanx/fleet/rank_host.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "phalanx/collective/segment.h"

namespace phalanx::fleet {
namespace {

// The communicator of the present epoch as a rank of it would map it: the only one of this process.
std::optional<os::Mapping> communicator() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (error || target.find("phalanx-communicator") == std::string::npos) {
      continue;
    }
    os::UniqueFd fd(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    struct stat file {};
    if (!fd.valid() || ::fstat(fd.get(), &file) != 0) {
      continue;
    }
    const auto memfd = os::Memfd::adopt(std::move(fd), static_cast<std::size_t>(file.st_size));
    auto mapping = memfd ? memfd->map(os::Access::kReadWrite) : Result<os::Mapping>(memfd.error());
    if (mapping) {
      return *std::move(mapping);
    }
  }
  return std::nullopt;
}

// The lifeline of a dying rank is free long before its process is gone, and the thread that watches
// it raises the abort word itself: survivors in a collective wait neither for the teardown nor for
// the loop of the replica, which here never turns.
TEST(RankHost, S5ADeathFreesTheOthersBeforeTheProcessIsGone) {
  os::EventLoop loop;
  auto context = ipc::ZmqContext::create();
  ASSERT_TRUE(context);
  wire::ReplicaBootstrap bootstrap;
  bootstrap.plan.tp = 2;
  RankHost host(loop, *context, bootstrap, std::vector<os::SpawnPlan>(2), -1, -1);
  const Status made = host.new_segment(Epoch(1));
  ASSERT_TRUE(made) << made.error().message();
  const auto segment = communicator();
  ASSERT_TRUE(segment) << "no communicator in /proc/self/fd";
  ASSERT_FALSE(collective::abort_raised(segment->bytes()));

  std::thread watcher([&] { host.on_dying(1, Incarnation(1)); });
  watcher.join();
  EXPECT_TRUE(collective::abort_raised(segment->bytes())) << "the survivors wait for the loop";
}

}  // namespace
}  // namespace phalanx::fleet
