// SPDX-License-Identifier: Apache-2.0
// The index of a Hugging Face folder whose weights are in several files.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/file_source.h"

namespace phalanx::checkpoint {

inline constexpr const char* kSingleName = "model.safetensors";
inline constexpr const char* kIndexName =
    "model.safetensors.index.json";  // where there is one, it counts

struct WeightIndex {
  std::vector<std::string> files;                           // plain names, each once
  std::map<std::string, std::size_t, std::less<>> file_of;  // tensor → file
};

// Errors: kNotFound  there is no index
//         kInvalidArgument, kDataLoss  it is no JSON, or does not name files of the folder
[[nodiscard]] Result<WeightIndex> read_weight_index(FileSource& files);

}  // namespace phalanx::checkpoint
