// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/collective/communicator.h"

#include "segment_layout.h"

namespace phalanx::collective {

enum class Op : std::uint64_t { kBarrier = 1, kAllGather = 2, kReduce = 3 };

// What the ranks of one operation must agree on.
struct Call {
  Op op;
  std::uint64_t bytes;   // whole payload of the operation
  std::uint64_t detail;  // leaves of the tree
};

// How the ranks meet. Meeting m (0, 1, 2 …) uses half m % 2 of every slot:
//   1. a rank writes its payload and tag into that half of its own slot,
//   2. stores arrived = m + 1 (release) and wakes sleepers,
//   3. waits until every rank's arrived is at least m + 1 (acquire),
//   4. reads the peers' halves.
// A half is written again in meeting m + 2. Its writer has then seen every arrived reach m + 2, and
// a rank stores that only after its reads of meeting m. So one word per rank is enough.
class MeetingPoint {
 public:
  MeetingPoint(std::span<std::byte> memory,
               const SegmentSpec& spec,
               std::uint32_t rank,
               Communicator::Options options)
      : memory_(memory), spec_(spec), rank_(rank), options_(options) {}

  [[nodiscard]] const SegmentSpec& spec() const { return spec_; }
  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }
  [[nodiscard]] CommunicatorCounters& counters() { return counters_; }

  // This meeting's half of the slot of rank `of`.
  [[nodiscard]] std::byte* slot(std::uint32_t of) const {
    return memory_.data() + slots_offset(spec_.world) +
           (std::size_t{of} * 2 + meetings_ % 2) * spec_.slot_bytes;
  }

  // Steps 2 and 3. `offset` tells the meetings of one operation apart.
  [[nodiscard]] Status meet(const Call& call, std::uint64_t offset);

  // After step 4.
  void leave() { ++meetings_; }

  // Ends the epoch because of `error`, which it returns.
  [[nodiscard]] Error fail(Error error);

 private:
  [[nodiscard]] RankLine& line(std::uint32_t of) const { return rank_line_of(memory_.data(), of); }
  [[nodiscard]] bool aborted() const;
  [[nodiscard]] Error abort_error();
  [[nodiscard]] Status wait_for(std::uint32_t peer, std::uint32_t target);
  [[nodiscard]] Status sleep_until(std::uint32_t peer, std::uint32_t target);
  void publish(std::uint64_t tag);

  std::span<std::byte> memory_;
  SegmentSpec spec_;
  std::uint32_t rank_;
  Communicator::Options options_;
  std::uint32_t meetings_ = 0;  // finished; wraps
  bool failed_ = false;
  CommunicatorCounters counters_;
};

}  // namespace phalanx::collective
