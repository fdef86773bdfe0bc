// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"

namespace phalanx::dispatch {

// A replica that may take the request, with its load in pending tokens: what it owes, and what it
// would have to compute of this request's prompt.
struct Candidate {
  ReplicaId replica;
  std::uint64_t pending_tokens = 0;
};

// Chooses among the usable replicas.
// Threads: one.
class Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  // Index into `candidates`, which is not empty and ascending by replica.
  [[nodiscard]] virtual std::size_t choose(std::span<const Candidate> candidates) = 0;
};

//   least_pending_tokens  the smallest load; ties rotate, so that an idle server spreads its requests
//   round_robin           the next replica after the last one chosen
//   power_of_two          the smaller load of two drawn at random
//   random                uniform
inline constexpr std::string_view kPolicyNames[] = {
    "least_pending_tokens", "round_robin", "power_of_two", "random"};

// Errors: kInvalidArgument for an unknown name, listing the known ones. `seed` makes the drawing
// policies repeatable.
[[nodiscard]] Result<std::unique_ptr<Policy>> make_policy(std::string_view name,
                                                          std::uint64_t seed);

}  // namespace phalanx::dispatch
