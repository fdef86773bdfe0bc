// SPDX-License-Identifier: Apache-2.0
#include "group_member.h"

#include <utility>

namespace phalanx::worker {

GroupMember::GroupMember(RankId rank,
                         MapSegment map_segment,
                         const collective::Communicator::Options& options)
    : rank_(rank), map_segment_(std::move(map_segment)), options_(options) {}

Status GroupMember::join(Epoch epoch) {
  abort_word_.store(nullptr, std::memory_order_release);
  communicator_.reset();
  PHALANX_TRY(const EpochMemory segment, map_segment_(epoch));
  PHALANX_TRY(collective::Communicator communicator,
              collective::Communicator::attach(segment.memory, segment.spec, rank_, options_));
  communicator_.emplace(std::move(communicator));
  abort_word_.store(&communicator_->abort_word(), std::memory_order_release);
  return communicator_->barrier();
}

bool GroupMember::aborted() const {
  const collective::AbortWord* word = abort_word_.load(std::memory_order_acquire);
  return word != nullptr && word->load(std::memory_order_relaxed) != 0;
}

}  // namespace phalanx::worker
