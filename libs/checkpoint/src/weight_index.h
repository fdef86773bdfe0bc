// SPDX-License-Identifier: Apache-2.0
// The index of a Hugging Face folder whose weights are in several files.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/file_source.h"

namespace phalanx::checkpoint {

inline constexpr const char* kSingleName = "model.safetensors";
inline constexpr const char* kIndexName = "model.safetensors.index.json";

struct WeightIndex {
  std::vector<std::string> files;                           // plain names, each once
  std::map<std::string, std::size_t, std::less<>> file_of;  // tensor → file
};

// The index if it says what is served. Nothing where there is none, and where kSingleName is
// there and it names that or a file that is gone: it is then of shards that somebody has merged.
// Otherwise it goes before kSingleName, as in vLLM.
// Errors: kInvalidArgument, kDataLoss: it is no JSON, or does not name files of the folder.
[[nodiscard]] Result<std::optional<WeightIndex>> index_to_serve(FileSource& files);

}  // namespace phalanx::checkpoint
