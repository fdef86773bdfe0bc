// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx::obs {

// The last lines of a process in memory that outlives it: a ring of bytes in a page that the
// parent keeps (os::Lifeline::flight_area()), written by the child's log, read by the parent after
// a death that left no other word. Zeroed memory is an empty ring.
//
// Threads: one writer at a time (the log's lock). A reader may run in another process at any time;
// it drops what it cannot make sense of, because a writer may die between two bytes.
// Bounds: a line longer than a quarter of the ring is cut.
class FlightRing {
 public:
  // Requires: 8-byte aligned and at least 64 bytes; smaller memory makes a ring that keeps nothing.
  explicit FlightRing(std::span<std::byte> memory) : memory_(memory) {}

  void append(std::string_view line);  // newlines inside become blanks

  // The newest lines that are whole, oldest first, at most `limit`.
  [[nodiscard]] std::vector<std::string> lines(std::size_t limit) const;

 private:
  [[nodiscard]] std::size_t capacity() const;
  std::span<std::byte> memory_;
};

}  // namespace phalanx::obs
