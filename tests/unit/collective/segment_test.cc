// SPDX-License-Identifier: Apache-2.0
#include "phalanx/collective/segment.h"

#include <cstring>

#include "group.h"

namespace phalanx::collective {
namespace {

Code attach_code(Group& group, const SegmentSpec& spec, std::uint32_t rank = 0) {
  const auto result = Communicator::attach(group.memory(), spec, RankId(rank), group.options());
  return result ? Code{} : result.error().code();
}

TEST(Segment, IsRefusedWhenItIsAnotherOne) {
  Group group(2);
  SegmentSpec other = group.spec();
  other.epoch = Epoch(8);
  EXPECT_EQ(attach_code(group, other), Code::kFailedPrecondition);
  other = group.spec();
  other.nonce += 1;
  EXPECT_EQ(attach_code(group, other), Code::kFailedPrecondition);
  other = group.spec();
  other.world = 3;
  EXPECT_EQ(attach_code(group, other), Code::kFailedPrecondition);
  other = group.spec();
  other.slot_bytes += 64;
  EXPECT_EQ(attach_code(group, other), Code::kFailedPrecondition);
  EXPECT_EQ(attach_code(group, group.spec()), Code{});
}

TEST(Segment, AdmitsEachRankOnce) {
  Group group(2);
  EXPECT_EQ(attach_code(group, group.spec(), 1), Code{});
  EXPECT_EQ(attach_code(group, group.spec(), 1), Code::kFailedPrecondition);
  EXPECT_EQ(attach_code(group, group.spec(), 2), Code::kInvalidArgument);
}

TEST(Segment, IsRefusedWhenItsHeaderIsDamaged) {
  Group group(2);
  const std::vector<std::byte> good(group.memory().begin(), group.memory().begin() + 48);
  for (std::size_t i = 0; i < 44; ++i) {  // the last four bytes are reserved
    group.memory()[i] ^= std::byte{0x20};
    EXPECT_NE(attach_code(group, group.spec()), Code{}) << "byte " << i;
    std::memcpy(group.memory().data(), good.data(), good.size());
  }
}

TEST(Segment, IsRefusedWhenTheMappingIsTooSmall) {
  Group group(2);
  const auto half = group.memory().first(group.memory().size() / 2);
  const auto result = Communicator::attach(half, group.spec(), RankId(0), group.options());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
  EXPECT_FALSE(initialize_segment(half, group.spec()));
}

TEST(Segment, RefusesSpecsOutOfBounds) {
  Group group(1);
  SegmentSpec spec = group.spec();
  spec.world = kMaxWorld + 1;
  EXPECT_EQ(code_of(initialize_segment(group.memory(), spec)), Code::kInvalidArgument);
  spec = group.spec();
  spec.slot_bytes = kMinSlotBytes + 1;
  EXPECT_EQ(code_of(initialize_segment(group.memory(), spec)), Code::kInvalidArgument);
  spec.slot_bytes = kMaxSlotBytes * 2;
  EXPECT_EQ(code_of(initialize_segment(group.memory(), spec)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(initialize_segment(group.memory().subspan(8), group.spec())),
            Code::kInvalidArgument);
}

TEST(Segment, TakesTheAbortEvenIfADyingRankOverwroteTheHeader) {
  Group group(2);
  std::memset(group.memory().data(), 0xFF, 48);
  EXPECT_FALSE(abort_raised(group.memory()));
  raise_abort(group.memory());
  EXPECT_TRUE(abort_raised(group.memory()));
}

TEST(Segment, OfAnOlderEpochCannotReachTheNewOne) {
  Group old_epoch(2);
  Group new_epoch(2);
  Communicator straggler = old_epoch.attach(1);
  straggler.abort();
  EXPECT_TRUE(abort_raised(old_epoch.memory()));
  EXPECT_FALSE(abort_raised(new_epoch.memory()));
  new_epoch.run_ok([](Communicator& communicator) { return communicator.sanity(); });
}

}  // namespace
}  // namespace phalanx::collective
