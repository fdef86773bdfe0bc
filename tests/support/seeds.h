// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>

namespace phalanx::testing {

// How many seeds a random test walks: PHALANX_TEST_SEEDS, or what fits the time of a daily run.
inline std::uint64_t seeds_to_walk(std::uint64_t usual) {
  const char* text = std::getenv("PHALANX_TEST_SEEDS");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

}  // namespace phalanx::testing
