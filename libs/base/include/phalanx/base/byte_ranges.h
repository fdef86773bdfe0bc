// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace phalanx {

// Half-open range of byte offsets.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] std::size_t size() const { return end - begin; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// A set of bytes of a text, as ascending ranges that do not touch.
class ByteRanges {
 public:
  // Requires: `range` begins at or after the end of the last one.
  void append(ByteRange range) {
    if (range.begin == range.end) {
      return;
    }
    if (!ranges_.empty() && ranges_.back().end >= range.begin) {
      ranges_.back().end = std::max(ranges_.back().end, range.end);
    } else {
      ranges_.push_back(range);
    }
  }

  // Adds the ranges of another text that is put behind this one at `offset`.
  void append(const ByteRanges& other, std::size_t offset) {
    for (const ByteRange& range : other.ranges_) {
      append({range.begin + offset, range.end + offset});
    }
  }

  [[nodiscard]] bool empty() const { return ranges_.empty(); }

  [[nodiscard]] bool overlaps(ByteRange range) const {
    const auto next = std::upper_bound(
        ranges_.begin(), ranges_.end(), range.begin, [](std::size_t begin, const ByteRange& r) {
          return begin < r.end;
        });
    return next != ranges_.end() && next->begin < range.end;
  }

  // The part of the set inside `window`, with offsets that count from the window's begin.
  [[nodiscard]] ByteRanges within(ByteRange window) const {
    ByteRanges inside;
    for (std::size_t at = window.begin; at < window.end;) {
      const std::size_t stop = run_end(at, window.end);
      if (overlaps({at, stop})) {
        inside.append({at - window.begin, stop - window.begin});
      }
      at = stop;
    }
    return inside;
  }

  // Where the stretch that begins at `position`, wholly in the set or wholly outside it, ends;
  // `end` at most.
  [[nodiscard]] std::size_t run_end(std::size_t position, std::size_t end) const {
    const auto next = std::upper_bound(
        ranges_.begin(), ranges_.end(), position, [](std::size_t at, const ByteRange& r) {
          return at < r.end;
        });
    if (next == ranges_.end()) {
      return end;
    }
    return std::min(end, next->begin > position ? next->begin : next->end);
  }

 private:
  std::vector<ByteRange> ranges_;
};

}  // namespace phalanx
