// SPDX-License-Identifier: Apache-2.0
#include "phalanx/collective/communicator.h"

#include <algorithm>
#include <random>
#include <thread>

#include "group.h"

namespace phalanx::collective {
namespace {

std::vector<std::byte> payload(std::uint32_t rank, std::uint32_t round, std::size_t size) {
  std::mt19937 random(rank * 1000 + round);
  std::vector<std::byte> bytes(size);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

TEST(Communicator, PassesItsSanityCheckAtEveryWorldSize) {
  for (const std::uint32_t world : {1U, 2U, 3U, 4U, 6U}) {
    Group group(world);
    group.run_ok([](Communicator& communicator) { return communicator.sanity(); });
  }
}

TEST(Communicator, GathersInRankOrderRoundAfterRound) {
  constexpr std::uint32_t kWorld = 3;
  for (const std::uint32_t spin : {0U, 2000U}) {
    Group group(kWorld);
    group.options().spin = spin;
    group.run_ok([&](Communicator& communicator) -> Status {
      std::mt19937 sizes(9);
      for (std::uint32_t round = 0; round < 300; ++round) {
        const std::size_t size = sizes() % (round % 10 == 0 ? 20'000 : 600);
        const std::vector<std::byte> own = payload(communicator.rank(), round, size);
        std::vector<std::byte> all(size * kWorld);
        PHALANX_RETURN_IF_ERROR(communicator.all_gather(own, all));
        for (std::uint32_t rank = 0; rank < kWorld; ++rank) {
          const auto expected = payload(rank, round, size);
          const auto part = std::span(all).subspan(rank * size, size);
          if (!std::equal(part.begin(), part.end(), expected.begin())) {
            return data_loss("round " + std::to_string(round) + " rank " + std::to_string(rank));
          }
        }
      }
      return ok();
    });
  }
}

TEST(Communicator, GathersInPlace) {
  Group group(2);
  std::vector<std::vector<std::uint32_t>> all(2, std::vector<std::uint32_t>(2));
  group.run_ok([&](Communicator& communicator) {
    auto& mine = all[communicator.rank()];
    mine[communicator.rank()] = 10 + communicator.rank();
    return communicator.all_gather(
        std::as_bytes(std::span(mine)).subspan(4 * communicator.rank(), 4),
        std::as_writable_bytes(std::span(mine)));
  });
  EXPECT_EQ(all[0], (std::vector<std::uint32_t>{10, 11}));
  EXPECT_EQ(all[1], all[0]);
}

TEST(Communicator, HoldsEveryRankAtABarrier) {
  constexpr std::uint32_t kWorld = 4;
  Group group(kWorld);
  std::atomic<std::uint32_t> before = 0;
  group.run_ok([&](Communicator& communicator) -> Status {
    for (std::uint32_t round = 1; round <= 200; ++round) {
      ++before;
      PHALANX_RETURN_IF_ERROR(communicator.barrier());
      if (before < round * kWorld) {
        return internal_error("passed before all had come");
      }
      PHALANX_RETURN_IF_ERROR(communicator.barrier());
    }
    return ok();
  });
}

TEST(Communicator, GivesUpOnARankThatDoesNotCome) {
  Group group(2);
  group.options().timeout = std::chrono::milliseconds(20);
  Communicator communicator = group.attach(0);
  const Status status = communicator.barrier();
  ASSERT_EQ(code_of(status), Code::kDeadlineExceeded);
  EXPECT_NE(status.error().message().find("rank 1"), std::string::npos);
  EXPECT_TRUE(abort_raised(group.memory()));
  EXPECT_EQ(code_of(communicator.barrier()), Code::kAborted);
}

// However slow a peer is that moves: who judges it raises the abort, and no clock does (S3).
TEST(Communicator, HasNoDeadlineOfItsOwnUnlessItIsGivenOne) {
  EXPECT_FALSE(Communicator::Options{}.timeout);
  Group group(2);
  group.options().timeout.reset();
  Communicator communicator = group.attach(0);
  std::thread watcher([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    communicator.abort();
  });
  EXPECT_EQ(code_of(communicator.barrier()), Code::kAborted);
  watcher.join();
}

TEST(Communicator, FindsRanksThatCallDifferentOperations) {
  Group group(2);
  const std::vector<Status> results = group.run([](Communicator& communicator) {
    std::vector<std::byte> all(32);
    return communicator.rank() == 0 ? communicator.barrier()
                                    : communicator.all_gather(std::span(all).first(16), all);
  });
  // The first to look says what is wrong; the other may see its abort word first.
  const auto is_data_loss = [](const Status& status) { return code_of(status) == Code::kDataLoss; };
  EXPECT_TRUE(std::any_of(results.begin(), results.end(), is_data_loss));
  EXPECT_FALSE(results[0]);
  EXPECT_FALSE(results[1]);
}

TEST(Communicator, FindsRanksThatPassDifferentSizes) {
  Group group(2);
  const std::vector<Status> results = group.run([](Communicator& communicator) {
    const std::size_t own = 16 + communicator.rank();
    std::vector<std::byte> all(2 * own);
    return communicator.all_gather(std::span(all).first(own), all);
  });
  EXPECT_FALSE(results[0]);
  EXPECT_FALSE(results[1]);
}

TEST(Communicator, SanityFindsAWrongSum) {
  Group group(2);
  std::vector<Status> results = group.run([&](Communicator& communicator) -> Status {
    if (communicator.rank() == 0) {
      return communicator.sanity();
    }
    PHALANX_TRY(const TreePlan plan, TreePlan::make(2, 2));
    std::vector<float> ones(kMinSlotBytes / sizeof(float) + 1, 2.0F);
    const float* own = ones.data();
    return communicator.reduce_tree(plan, std::span(&own, 1), ones);
  });
  EXPECT_EQ(code_of(results[0]), Code::kDataLoss);
  EXPECT_TRUE(results[1]);
  EXPECT_TRUE(abort_raised(group.memory()));
}

TEST(Communicator, CountsWhatItDoes) {
  Group group(1);
  Communicator communicator = group.attach(0);
  EXPECT_TRUE(communicator.barrier());
  EXPECT_TRUE(communicator.barrier());
  EXPECT_EQ(communicator.counters().meetings, 2U);
  EXPECT_EQ(communicator.counters().bytes, 0U);
  EXPECT_EQ(communicator.world(), 1U);
  EXPECT_EQ(communicator.rank(), 0U);
  EXPECT_EQ(communicator.epoch(), Epoch(7));
}

}  // namespace
}  // namespace phalanx::collective
