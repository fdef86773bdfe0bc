// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/replica_link.h"

namespace phalanx::dispatch {

namespace {

// About those of its frame.
std::size_t bytes_of(const wire::Submit& submit) {
  constexpr std::size_t kRest = 256;
  const std::size_t ids =
      submit.prompt_ids.size() + submit.produced_ids.size() + submit.stop.stop_token_ids.size();
  return ids * sizeof(TokenId) +
         submit.sampling.logit_bias.size() * (sizeof(TokenId) + sizeof(float)) +
         submit.cache_salt.size() + kRest;
}

}  // namespace

std::optional<std::uint64_t> ReplicaLink::submit(const wire::Submit& submit) {
  if (full() || (*send_)(replica_, submit) != wire::Sent::kQueued) {
    return std::nullopt;
  }
  unhandled_.emplace_back(++effects_, bytes_of(submit));
  unhandled_bytes_ += unhandled_.back().second;
  return effects_;
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
  while (!unhandled_.empty() && unhandled_.front().first <= effects) {
    unhandled_bytes_ -= unhandled_.front().second;
    unhandled_.pop_front();
  }
  while (!order_.empty() && order_.front().first <= effects) {
    sent_.erase(order_.front().second);
    order_.pop_front();
  }
}

void ReplicaLink::reset() {
  effects_ = 0;
  unhandled_.clear();
  unhandled_bytes_ = 0;
  unsent_.clear();
  sent_.clear();
  order_.clear();
}

}  // namespace phalanx::dispatch
