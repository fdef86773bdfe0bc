// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "phalanx/base/result.h"
#include "phalanx/step/limits.h"
#include "phalanx/wire/limits.h"

namespace phalanx::engine {

struct SchedulerOptions {
  step::RankLimits limits;
  std::uint32_t max_waiting =
      wire::kMaxQueuedChoices;    // sequences that have not started; more are refused
  std::uint32_t vocab_size = 0;   // token ids from outside must lie below it
  std::uint32_t max_passes = 64;  // how often younger ones pass a waiting sequence
  bool prefix_cache = false;      // full blocks are kept and shared by equal beginnings
  std::uint64_t prefix_key = 0;   // of their hashes: secret, and the leader's as well

  // What attaches all running sequences at once, as behind the death of a rank, is one command,
  // however many blocks they share.
  std::uint64_t max_command_bytes = wire::kMaxFrameBytes - (std::size_t{1} << 20);
};

// Most bytes that a command to a rank takes for one sequence, tokens and block ids apart.
inline constexpr std::size_t kMaxSequenceBytes = std::size_t{9} << 10;

// kInvalidArgument naming the option, what it must be and what it is.
[[nodiscard]] Status validate(const SchedulerOptions& options);

}  // namespace phalanx::engine
