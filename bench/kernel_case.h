// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "phalanx/kernels/layout.h"
#include "phalanx/os/memfd.h"

namespace phalanx::bench {

// The shape of a layer of Qwen3-0.6B.
inline constexpr std::uint32_t kHidden = 1024;
inline constexpr std::uint32_t kIntermediate = 3072;
inline constexpr std::uint32_t kKvHeads = 8;
inline constexpr std::uint32_t kGroup = 2;
inline constexpr std::uint32_t kHeadDim = 128;
inline constexpr std::uint32_t kHeads = kKvHeads * kGroup;

inline constexpr std::uint32_t kMaxRows = 512;
inline constexpr std::size_t kWeightBytes = std::size_t{192} << 20;  // more than caches hold
inline constexpr kernels::KvFormat kKvFormats[] = {kernels::KvFormat::kBf16,
                                                   kernels::KvFormat::kInt8};

// Memory that all cases use in turns; what is in it does not matter but that it is finite.
struct Scratch {
  os::Mapping weights;  // kWeightBytes: weights, or keys and values
  os::Mapping in;       // kMaxRows rows of twice kIntermediate floats
  os::Mapping out;      // the same
};

// One thing to measure. `run` does it once, the more often the further into memory.
struct Case {
  std::string name;  // as members of a JSON object
  std::string row;   // for people
  // Each addition, product, comparison, exponential or root of the definition is one.
  double operations = 0.0;
  // Of weights, keys, values and records of attention; of kernels of rows all that they read and
  // write.
  double bytes = 0.0;
  std::function<void(std::size_t turn)> run;
  std::vector<double> seconds;
};

// The name of what is done to a KV cache of this format.
[[nodiscard]] inline std::string with_kv_format(const std::string& name, kernels::KvFormat format) {
  return format == kernels::KvFormat::kInt8 ? name + "-int8" : name;
}

}  // namespace phalanx::bench
