// SPDX-License-Identifier: Apache-2.0
#include "weight_index.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/json/value.h"

namespace phalanx::checkpoint {
namespace {

constexpr std::size_t kMaxIndexBytes = kMaxSafetensorsHeaderBytes;
constexpr std::size_t kMaxShards = 4096;

// A shard's name comes from a file: it must not lead out of the folder.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

Result<WeightIndex> parse_index(std::string_view text) {
  PHALANX_TRY(const json::Value root, json::parse(text, {.bytes_max = kMaxIndexBytes}));
  const json::Value* const map = root.find("weight_map");
  if (map == nullptr || map->as_object() == nullptr || map->as_object()->empty()) {
    return data_loss("weight_map: expected an object of tensor names, found none");
  }
  WeightIndex index;
  std::map<std::string, std::size_t, std::less<>> numbers;
  for (const auto& [tensor, value] : *map->as_object()) {
    const std::string name = value.as_string() == nullptr ? "" : *value.as_string();
    if (!is_plain_name(name)) {
      return data_loss("weight_map: tensor \"" + std::string(tensor.substr(0, 256)) +
                       "\": expected a plain file name, found " + json::describe(value));
    }
    const auto [number, is_new] = numbers.emplace(name, index.files.size());
    if (is_new) {
      if (index.files.size() == kMaxShards) {
        return data_loss("weight_map: expected at most " + std::to_string(kMaxShards) +
                         " shard files, found more");
      }
      index.files.push_back(name);
    }
    index.file_of.emplace(tensor, number->second);
  }
  return index;
}

Result<WeightIndex> read_weight_index(FileSource& files) {
  PHALANX_TRY(const std::unique_ptr<FileBytes> file, files.open(kIndexName));
  const std::span<const std::byte> bytes = file->bytes();
  auto index = parse_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!index) {
    return std::move(index).error().with(files.describe(kIndexName));
  }
  return index;
}

}  // namespace

Result<std::optional<WeightIndex>> index_to_serve(FileSource& files) {
  if (!files.has(kIndexName)) {
    return std::optional<WeightIndex>();
  }
  PHALANX_TRY(WeightIndex index, read_weight_index(files));
  // Of kSingleName it may name a part.
  const bool is_of_shards =
      std::all_of(index.files.begin(), index.files.end(), [&](const std::string& name) {
        return name != kSingleName && files.has(name);
      });
  if (!is_of_shards && files.has(kSingleName)) {
    return std::optional<WeightIndex>();
  }
  return std::optional<WeightIndex>(std::move(index));
}

}  // namespace phalanx::checkpoint
