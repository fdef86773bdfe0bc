// SPDX-License-Identifier: Apache-2.0
#include "phalanx/front/left_journals.h"

#include <algorithm>
#include <utility>

namespace phalanx::front {

Result<std::shared_ptr<const LeftJournal>> LeftJournals::of(int fd) {
  const auto known =
      std::ranges::find_if(entries_, [fd](const Entry& entry) { return entry.journal->is(fd); });
  if (known != entries_.end()) {
    known->used = true;
    return known->journal;
  }
  PHALANX_TRY(LeftJournal opened, LeftJournal::open(fd));
  entries_.push_back({std::make_shared<const LeftJournal>(std::move(opened))});
  return entries_.back().journal;
}

void LeftJournals::end_second() {
  std::erase_if(entries_, [](Entry& entry) {
    return !std::exchange(entry.used, false) && entry.journal.use_count() == 1;
  });
}

}  // namespace phalanx::front
