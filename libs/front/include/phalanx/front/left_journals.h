// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/front/left_journal.h"

namespace phalanx::front {

// The journals of dead fronts, each mapped once for all connections that come with it: as long as
// they come, or wait for their turn with what of() gave. No descriptor is kept.
//
// Threads: the loop thread.
class LeftJournals {
 public:
  // `fd` stays the caller's.
  // Errors: as LeftJournal::open()
  [[nodiscard]] Result<std::shared_ptr<const LeftJournal>> of(int fd);

  // To be called each second: forgets those that nobody holds or has asked for since the last time.
  void end_second();

 private:
  struct Entry {
    std::shared_ptr<const LeftJournal> journal;
    bool used = true;  // since the last second
  };
  std::vector<Entry> entries_;
};

}  // namespace phalanx::front
