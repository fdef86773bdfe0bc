// SPDX-License-Identifier: Apache-2.0
#include "phalanx/gguf/split.h"

#include <cstdio>
#include <limits>

namespace phalanx::gguf {
namespace {

constexpr const char* kNumber = "split.no";
constexpr const char* kCount = "split.count";
constexpr const char* kTensors = "split.tensors.count";

// "-00002-of-00005.gguf"
std::string suffix_of(std::uint32_t number, std::uint32_t count) {
  constexpr std::size_t kMost = 64;
  char text[kMost];
  const int length = std::snprintf(text, kMost, "-%05u-of-%05u.gguf", number + 1, count);
  return {text, static_cast<std::size_t>(length)};
}

}  // namespace

Result<SplitKeys> split_keys(const Metadata& metadata) {
  SplitKeys keys;
  if (!metadata.has(kCount)) {
    return keys;
  }
  const auto read = [&](const char* key, std::int64_t most) -> Result<std::int64_t> {
    auto value = metadata.integer(key, 0, most);
    if (!value) {
      return data_loss(value.error().message());
    }
    return value;
  };
  PHALANX_TRY(const std::int64_t count, read(kCount, kMaxSplits));
  if (count <= 1) {
    return keys;
  }
  PHALANX_TRY(const std::int64_t number, read(kNumber, count - 1));
  PHALANX_TRY(const std::int64_t tensors, read(kTensors, std::numeric_limits<std::int32_t>::max()));
  keys.number = static_cast<std::uint32_t>(number);
  keys.count = static_cast<std::uint32_t>(count);
  keys.tensors = static_cast<std::uint64_t>(tensors);
  return keys;
}

Result<std::vector<std::string>> split_names(std::string_view name, const SplitKeys& keys) {
  if (keys.count == 1) {
    return std::vector<std::string>{std::string(name)};
  }
  const std::string own = suffix_of(keys.number, keys.count);
  if (!name.ends_with(own)) {
    return invalid_argument("file name: expected one that ends in \"" + own +
                            "\", as its keys say, found \"" + std::string(name) +
                            "\"; give the file the name it was written with");
  }
  const std::string stem(name.substr(0, name.size() - own.size()));
  std::vector<std::string> names;
  names.reserve(keys.count);
  for (std::uint32_t number = 0; number < keys.count; ++number) {
    names.push_back(stem + suffix_of(number, keys.count));
  }
  return names;
}

}  // namespace phalanx::gguf
