// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "phalanx/base/clock.h"

namespace phalanx::jinja {

// What one rendering may use; past any of them it fails with kResourceExhausted naming the limit.
struct Limits {
  std::size_t output_bytes_max = std::size_t{16} << 20;
  std::size_t loop_iterations_max = std::size_t{1} << 20;  // of all loops together
  std::size_t work_bytes_max = std::size_t{1} << 28;       // bytes of all strings and lists built
  std::size_t macro_depth_max = 32;
  Duration cpu_time_max = std::chrono::seconds(2);  // of the thread that renders
};

}  // namespace phalanx::jinja
