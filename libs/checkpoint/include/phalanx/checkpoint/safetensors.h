// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::checkpoint {

inline constexpr std::size_t kMaxSafetensorsHeaderBytes = std::size_t{100} << 20;
inline constexpr std::size_t kMaxSafetensorsTensors = 1'000'000;
inline constexpr std::size_t kMaxSafetensorsRank = 8;

// One tensor of a file, as its header declares it and as it was checked: its bytes lie inside the
// file, equal the product of its shape and its element size, and overlap no other tensor.
struct SafetensorsEntry {
  std::string dtype;  // "BF16", "F16", "F32", "I64" …, as spelled
  std::vector<std::uint64_t> shape;
  std::size_t offset = 0;  // from the start of the file
  std::size_t bytes = 0;

  friend bool operator==(const SafetensorsEntry&, const SafetensorsEntry&) = default;
};

using SafetensorsDirectory = std::map<std::string, SafetensorsEntry, std::less<>>;

// Reads the directory of a safetensors file that may be hostile: nothing is believed before it is
// checked, and nothing is allocated beyond a small multiple of the header.
//
// Errors: kDataLoss  the file is truncated, the header is no JSON or lies; the message names the
//                    tensor, what was expected and what was found
[[nodiscard]] Result<SafetensorsDirectory> parse_safetensors(std::span<const std::byte> file);

// "[1024, 3072]"
[[nodiscard]] std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace phalanx::checkpoint
