// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/collective/communicator.h"

namespace phalanx::worker {

// The communicator segment of an epoch, mapped into this process.
struct EpochMemory {
  std::span<std::byte> memory;
  collective::SegmentSpec spec;
};

// A rank's membership in its group: the communicator of the present epoch, and the abort word that
// kernels poll between tiles. The word changes with the communicator, so it is reached through one
// pointer, which is null between two epochs.
//
// Threads: join() and the communicator on the main thread, while no other thread of the rank
// computes; aborted() from any.
class GroupMember {
 public:
  // Maps the segment of an epoch; the memory stays mapped until the next call. Bounded in time.
  using MapSegment = std::function<Result<EpochMemory>(Epoch epoch)>;

  GroupMember(RankId rank,
              MapSegment map_segment,
              const collective::Communicator::Options& options);

  // Attaches to the communicator of `epoch` and meets the peers in a barrier.
  [[nodiscard]] Status join(Epoch epoch);

  [[nodiscard]] collective::Communicator* communicator() {
    return communicator_ ? &*communicator_ : nullptr;
  }
  [[nodiscard]] bool aborted() const;

 private:
  RankId rank_;
  MapSegment map_segment_;
  collective::Communicator::Options options_;
  std::optional<collective::Communicator> communicator_;
  std::atomic<const collective::AbortWord*> abort_word_{nullptr};
};

}  // namespace phalanx::worker
