// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace phalanx {

// A number that names something. Different names are different types: a RankId is never taken for a
// ReplicaId.
template <typename Tag, typename Rep>
class Id {
 public:
  using rep = Rep;

  constexpr Id() = default;
  explicit constexpr Id(Rep value) : value_(value) {}

  [[nodiscard]] constexpr Rep value() const { return value_; }
  // clang-tidy 14 takes the 0 that a defaulted comparison compares with for a null pointer.
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  Rep value_{};
};

using ReplicaId =
    Id<struct ReplicaIdTag, std::uint32_t>;  // index of a data-parallel group, 0 … dp-1
using RankId =
    Id<struct RankIdTag, std::uint32_t>;  // index of a rank in its tensor-parallel group, 0 … tp-1
using BlockId = Id<struct BlockIdTag, std::uint32_t>;  // index of a KV block in its pool

using Boot = Id<struct BootTag, std::uint64_t>;  // one life of the leader; random
using Incarnation =
    Id<struct IncarnationTag, std::uint32_t>;  // one life of a child slot; its parent counts from 1
using Epoch =
    Id<struct EpochTag, std::uint32_t>;  // one formation of a rank group; the replica counts from 1
using StepId =
    Id<struct StepIdTag, std::uint64_t>;  // one step of a replica; never reused, a re-run keeps it
using RequestId = Id<struct RequestIdTag, std::uint64_t>;  // one client request; the leader counts
using ChoiceIndex = Id<struct ChoiceTag, std::uint32_t>;   // 0 … n-1 within a request
using Attempt =
    Id<struct AttemptTag, std::uint32_t>;  // dispatches of one (request, choice); the leader counts

using TokenId = std::int32_t;  // index into the vocabulary, as in every tokenizer file

}  // namespace phalanx

template <typename Tag, typename Rep>
struct std::hash<phalanx::Id<Tag, Rep>> {
  std::size_t operator()(phalanx::Id<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};
