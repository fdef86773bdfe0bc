// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/base/clock.h"
#include "phalanx/engine/progress_watch.h"

namespace phalanx::engine {

struct GroupOptions {
  std::uint32_t ranks = 1;
  std::uint64_t secret = 0;         // that every hello must prove
  std::uint32_t restart_limit = 5;  // recoveries within …
  Duration restart_window = std::chrono::seconds(60);
  // For killed ranks to be gone, for asked ones to leave before they are killed; after twice as
  // many an end waits no longer.
  std::uint32_t reap_ticks = 500;
  std::uint32_t shortage_periods = 50;  // a pause for resources that are lacking; at most …
  std::uint32_t shortage_limit = 5;     // … so many in a row
  std::uint32_t ping_periods = 50;      // an idle group is pinged after so many periods; 0 = never
  ProgressOptions progress;
  // Some rank runs under a wrapper, and the others wait for it: nobody is hung for making no
  // progress; an abort must be answered within …
  bool patient = false;
  std::uint32_t patient_grace_ticks = 1500;
};

}  // namespace phalanx::engine
