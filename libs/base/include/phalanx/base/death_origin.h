// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace phalanx {

// Whose doing the death of a process was, as far as its parent can tell.
enum class DeathOrigin {
  kSent,     // a signal that somebody sent, the parent included; also what nothing is known of
  kOwn,      // a fault, an abort or an exit of its own, or the kernel's choice when memory ran out
  kStopped,  // it stood still by a stop signal when it was killed
};

}  // namespace phalanx
