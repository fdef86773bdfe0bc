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

namespace phalanx::app {

// The segment identity of an epoch, the same on both sides: the nonce follows from the per-boot
// secret.
[[nodiscard]] collective::SegmentSpec segment_spec(Epoch epoch,
                                                   std::uint32_t world,
                                                   std::uint64_t secret);

// A rank's membership in its group: the communicator of the present epoch, and the abort word that
// kernels poll between tiles. The word is replaced with the communicator, so it is reached through
// one pointer that never dangles: the memory of older epochs stays mapped until the next one is
// there.
//
// Threads: join() and the communicator on the main thread; aborted() from any thread.
class GroupMember {
 public:
  // Maps the segment of an epoch, waiting for it at most `deadline`; the memory stays mapped until
  // the next call.
  using MapSegment = std::function<Result<std::span<std::byte>>(Epoch epoch)>;

  GroupMember(RankId rank, std::uint32_t world, std::uint64_t secret, MapSegment map_segment);

  // Attaches to the communicator of `epoch` and meets the peers in a barrier.
  [[nodiscard]] Status join(Epoch epoch);

  [[nodiscard]] collective::Communicator* communicator() {
    return communicator_ ? &*communicator_ : nullptr;
  }
  [[nodiscard]] bool aborted() const;

 private:
  RankId rank_;
  std::uint32_t world_;
  std::uint64_t secret_;
  MapSegment map_segment_;
  std::optional<collective::Communicator> communicator_;
  std::atomic<const collective::AbortWord*> abort_word_{nullptr};
};

}  // namespace phalanx::app
