// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/epoch_segment.h"

#include <utility>

#include "phalanx/collective/segment.h"
#include "phalanx/os/machine.h"

namespace phalanx::fleet {

Result<wire::EpochSegment> EpochSegmentHolder::renew(Epoch epoch, std::uint32_t world) {
  collective::SegmentSpec spec;
  spec.epoch = epoch;
  spec.world = world;
  spec.nonce = os::random_u64();
  PHALANX_TRY(
      os::Memfd memfd,
      os::Memfd::create("phalanx-communicator", collective::segment_bytes(world, spec.slot_bytes)));
  PHALANX_TRY(os::Mapping mapping, memfd.map(os::Access::kReadWrite));
  PHALANX_RETURN_IF_ERROR(collective::initialize_segment(mapping.bytes(), spec));
  wire::EpochSegment record;
  record.epoch = epoch;
  record.segment_bytes = memfd.size();
  record.nonce = spec.nonce;
  record.slot_bytes = spec.slot_bytes;
  const std::lock_guard lock(mutex_);
  mapping_ = std::move(mapping);
  memfd_ = std::move(memfd);
  return record;
}

void EpochSegmentHolder::raise_abort() {
  const std::lock_guard lock(mutex_);
  if (mapping_.valid()) {
    collective::raise_abort(mapping_.bytes());
  }
}

}  // namespace phalanx::fleet
