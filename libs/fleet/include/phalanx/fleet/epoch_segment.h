// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/os/memfd.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::fleet {

// The communicator segment of the present epoch, as the replica holds it: it makes one per epoch
// and raises its abort word.
//
// Threads: raise_abort() from any, also while renew() runs; the rest on the loop thread.
class EpochSegmentHolder {
 public:
  // Makes the segment of `epoch` for `world` ranks; the one before it is unmapped here, and lives
  // on in ranks that still have it. Returns the record that announces it.
  [[nodiscard]] Result<wire::EpochSegment> renew(Epoch epoch, std::uint32_t world);

  // Descriptor of the present segment; -1 before the first.
  [[nodiscard]] int fd() const { return memfd_.fd(); }

  // Ends the present epoch; nothing before the first.
  void raise_abort();

 private:
  std::mutex mutex_;  // guards mapping_ against a renewal while a watcher raises the abort
  os::Mapping mapping_;
  os::Memfd memfd_;
};

}  // namespace phalanx::fleet
