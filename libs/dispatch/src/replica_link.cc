// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/replica_link.h"

namespace phalanx::dispatch {

std::optional<std::uint64_t> ReplicaLink::submit(const wire::Submit& submit) {
  if ((*send_)(replica_, submit) != wire::Sent::kQueued) {
    return std::nullopt;
  }
  return ++effects_;
}

void ReplicaLink::cancel(const wire::SequenceKey& key) {
  if (!unsent_.empty() || cancels_left_ == 0 || !send_cancel(key)) {
    unsent_.insert(key);
  } else {
    --cancels_left_;
  }
}

bool ReplicaLink::send_cancel(const wire::SequenceKey& key) {
  if ((*send_)(replica_, wire::Cancel{key}) != wire::Sent::kQueued) {
    return false;
  }
  ++effects_;
  sent_.insert(key);
  order_.emplace_back(effects_, key);
  return true;
}

bool ReplicaLink::flush() {
  for (cancels_left_ = kCancelsPerTurn; cancels_left_ > 0; --cancels_left_) {
    if (unsent_.empty() || !send_cancel(*unsent_.begin())) {
      return false;
    }
    unsent_.erase(unsent_.begin());
  }
  return !unsent_.empty();
}

void ReplicaLink::on_handled(std::uint64_t effects) {
  while (!order_.empty() && order_.front().first <= effects) {
    sent_.erase(order_.front().second);
    order_.pop_front();
  }
}

void ReplicaLink::reset() {
  effects_ = 0;
  unsent_.clear();
  sent_.clear();
  order_.clear();
}

}  // namespace phalanx::dispatch
