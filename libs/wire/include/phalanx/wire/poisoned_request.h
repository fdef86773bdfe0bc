// SPDX-License-Identifier: Apache-2.0
// What is written down of a request that ends what computes it. Contract of the file:
// proto/poison-dump.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/step/sampling.h"

namespace phalanx::wire {

// One choice of it: ids and parameters, no text of the client.
struct PoisonedRequest {
  std::string error{};  // how it ended the last process
  std::string label{};  // X-Request-Id
  RequestId request{};
  std::uint32_t choice = 0;
  step::SamplingParams sampling{};
  step::StopParams stop{};
  std::vector<TokenId> prompt_ids{};
  std::vector<TokenId> produced_ids{};
  friend bool operator==(const PoisonedRequest&, const PoisonedRequest&) = default;
};

// The frame in a file: two lists of ids at their bound, and what stands beside them.
inline constexpr std::size_t kMaxDumpBytes = std::size_t{9} << 20;

}  // namespace phalanx::wire
