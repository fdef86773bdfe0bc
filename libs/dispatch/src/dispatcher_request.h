// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/dispatch/dispatcher.h"

namespace phalanx::dispatch {

// A choice and its current attempt. It stays where it is until its request has ended.
struct Dispatcher::Running {
  Request& request;
  Choice choice;
  std::optional<ReplicaId> replica{};  // where the current attempt runs
  SteadyTime sent{};                   // the current attempt
  std::uint64_t effect = 0;            // its submission's number on that replica's link
  std::optional<ReplicaId> avoid{};    // where the last attempt failed
  Numerics fingerprint{};              // of the tokens produced so far
  std::uint32_t gaps = 0;

  [[nodiscard]] ChoiceName name() const;
  [[nodiscard]] wire::SequenceKey key() const;  // of the current attempt
};

struct Dispatcher::Request {
  RequestId id;
  Generation spec;
  std::shared_ptr<GenerationSink> sink;
  SteadyTime submitted;
  std::vector<Running> choices{};
  std::vector<std::uint64_t> prefix{};  // step::extend_prefix_hashes() of the prompt

  [[nodiscard]] bool finished() const {
    return std::all_of(
        choices.begin(), choices.end(), [](const Running& r) { return r.choice.finished(); });
  }
};

inline ChoiceName Dispatcher::Running::name() const {
  return {request.id, choice.index()};
}

inline wire::SequenceKey Dispatcher::Running::key() const {
  return {request.id, ChoiceIndex(choice.index()), choice.attempt};
}

// The choice that the key is of an attempt of.
inline ChoiceName name_of(const wire::SequenceKey& key) {
  return {key.request, key.choice.value()};
}

}  // namespace phalanx::dispatch
