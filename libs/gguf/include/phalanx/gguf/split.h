// SPDX-License-Identifier: Apache-2.0
// Models in several files, named NAME-00001-of-0000N.gguf. The first holds all metadata, each its
// own tensors, and three keys say how they belong together: split.no (from 0), split.count and
// split.tensors.count (of all files).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/gguf/metadata.h"

namespace phalanx::gguf {

inline constexpr std::uint32_t kMaxSplits = 4096;

struct SplitKeys {
  std::uint32_t number = 0;   // from 0
  std::uint32_t count = 1;    // 1: the model is in one file
  std::uint64_t tensors = 0;  // of all files; only if count > 1
};

// A file without split keys is the only one.
//
// Errors: kDataLoss  keys that contradict each other or are out of range
[[nodiscard]] Result<SplitKeys> split_keys(const Metadata& metadata);

// The names of all files of the model that file `name` with these keys belongs to, in order.
//
// Errors: kInvalidArgument  the name is not as its keys demand
[[nodiscard]] Result<std::vector<std::string>> split_names(std::string_view name,
                                                           const SplitKeys& keys);

}  // namespace phalanx::gguf
