// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "phalanx/base/clock.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::dispatch {

struct CircuitBreakerOptions {
  int failures_to_open = 3;  // in a row, requests that the replica failed by itself
  Duration open_for = std::chrono::seconds(5);
};

// Keeps new work away from a replica that fails its requests: such a replica empties quickly and
// would look least loaded. Closed → (failures in a row) → open → (after a pause) → half open: one
// probe attempt → closed with its first token, open with its failure. One whose prompt takes long
// keeps nobody away: as soon as a part of it is computed others may be sent, and the next failure
// opens. A probe that ends without any of that (cancelled, lost) proves nothing, and the next
// attempt is the probe.
//
// Threads: one.
class CircuitBreaker {
 public:
  explicit CircuitBreaker(CircuitBreakerOptions options = {}) : options_(options) {}

  // May a request be sent now? In the half-open state true until a probe is dispatched.
  [[nodiscard]] bool allows(SteadyTime now) const;

  void on_dispatch(const wire::SequenceKey& key, SteadyTime now);
  void on_progress(const wire::SequenceKey& key);  // less of its prompt is left
  void on_token(const wire::SequenceKey& key);
  void on_ended(const wire::SequenceKey& key);  // however an attempt ends, after what it proved
  void on_success();
  void on_failure(SteadyTime now);

  // A new incarnation of the replica starts with a clean record.
  void reset();

 private:
  CircuitBreakerOptions options_;
  int failures_ = 0;
  bool opened_ = false;
  std::optional<wire::SequenceKey> probe_;
  SteadyTime open_until_{};
};

}  // namespace phalanx::dispatch
