// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

namespace phalanx::kernels {

// What a thread will read once it has multiplied: listed before, and fetched by its products a
// little with each panel of weights, since computing leaves memory idle. Rounds, such as the layers
// of a model, follow one another; what is listed in one is fetched until the next begins. Nothing
// is read here: memory may be freed while it is listed. For one thread.
class alignas(64) ReadAhead {
 public:
  // 4 MiB: about what a core has of the last cache. More would be gone before it is read.
  static constexpr std::size_t kMaxLines = 65536;
  static constexpr std::size_t kMaxRuns = 256;

  struct Lines {
    const std::byte* first = nullptr;
    std::size_t count = 0;  // of 64 bytes
  };

  // Begins a round unless `round` is the one that has begun: what is left of the last is forgotten.
  void begin(const void* round);

  // Lists the lines of `bytes` from `first` on, as far as there is room.
  void add(const std::byte* first, std::size_t bytes);

  // What is to be fetched while so many lines of weights are multiplied: no more than `most`, and
  // as much as it takes to fetch all by the end of a round in which as many are multiplied as in
  // the last such round. Requires: weights > 0.
  [[nodiscard]] Lines take(std::size_t weights, std::size_t most);

 private:
  const void* round_ = nullptr;
  std::array<Lines, kMaxRuns> runs_;
  std::size_t count_ = 0;   // of runs
  std::size_t next_ = 0;    // the first run that is not fetched
  std::size_t listed_ = 0;  // lines of this round
  std::size_t left_ = 0;    // those that are not fetched
  std::size_t passed_ = 0;  // lines of weights that were multiplied in this round
  std::size_t last_ = 0;    // the same of the last round that listed and multiplied
};

}  // namespace phalanx::kernels
