// SPDX-License-Identifier: Apache-2.0
#include "group_member.h"

#include <utility>

#include "phalanx/base/hash.h"

namespace phalanx::app {

collective::SegmentSpec segment_spec(Epoch epoch, std::uint32_t world, std::uint64_t secret) {
  collective::SegmentSpec spec;
  spec.epoch = epoch;
  spec.world = world;
  spec.nonce = Fingerprint().add(secret).add(epoch.value()).value();
  return spec;
}

GroupMember::GroupMember(RankId rank,
                         std::uint32_t world,
                         std::uint64_t secret,
                         MapSegment map_segment)
    : rank_(rank), world_(world), secret_(secret), map_segment_(std::move(map_segment)) {}

Status GroupMember::join(Epoch epoch) {
  abort_word_.store(nullptr, std::memory_order_release);
  communicator_.reset();
  PHALANX_TRY(const std::span<std::byte> memory, map_segment_(epoch));
  PHALANX_TRY(
      collective::Communicator communicator,
      collective::Communicator::attach(memory, segment_spec(epoch, world_, secret_), rank_, {}));
  communicator_.emplace(std::move(communicator));
  abort_word_.store(&communicator_->abort_word(), std::memory_order_release);
  return communicator_->barrier();
}

bool GroupMember::aborted() const {
  const collective::AbortWord* word = abort_word_.load(std::memory_order_acquire);
  return word != nullptr && word->load(std::memory_order_relaxed) != 0;
}

}  // namespace phalanx::app
