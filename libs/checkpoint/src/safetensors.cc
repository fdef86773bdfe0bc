// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "phalanx/json/value.h"

namespace phalanx::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::size_t kPrefixBytes = 8;
constexpr std::size_t kMaxNameBytes = 1024;

struct DtypeRow {
  std::string_view name;
  std::size_t bits;
};
constexpr std::array<DtypeRow, 20> kDtypes = {{
    {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"BOOL", 8},    {"U8", 8},
    {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
    {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
    {"F32", 32}, {"I64", 64},    {"U64", 64},    {"F64", 64},    {"C64", 64},
}};

Error lies(std::string_view tensor, const std::string& what) {
  return data_loss("tensor \"" + std::string(tensor.substr(0, 256)) + "\": " + what);
}

Result<std::size_t> dtype_bits(std::string_view tensor, std::string_view dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == dtype) {
      return row.bits;
    }
  }
  return lies(tensor, "expected a known dtype, found \"" + std::string(dtype.substr(0, 32)) + "\"");
}

Result<std::string_view> read_dtype(std::string_view tensor, const json::Value& fields) {
  const json::Value* const found = fields.find("dtype");
  if (found == nullptr) {
    return lies(tensor, "expected a dtype, found none");
  }
  if (found->as_string() == nullptr) {
    return lies(tensor, "dtype: expected a string, found " + json::describe(*found));
  }
  return std::string_view(*found->as_string());
}

// An array of at most `count_max` unsigned integers.
Result<std::vector<std::uint64_t>> read_integers(std::string_view tensor,
                                                 const json::Value& fields,
                                                 std::string_view field,
                                                 std::size_t count_max) {
  const json::Value* const found = fields.find(field);
  if (found == nullptr) {
    return lies(tensor, "expected " + std::string(field) + ", found none");
  }
  if (found->as_array() == nullptr) {
    return lies(tensor,
                std::string(field) + ": expected an array, found " + json::describe(*found));
  }
  std::vector<std::uint64_t> values;
  for (const json::Value& item : *found->as_array()) {
    const std::int64_t* const value = item.as_int();
    if (value == nullptr || *value < 0) {
      return lies(
          tensor,
          std::string(field) + ": expected unsigned integers, found " + json::describe(item));
    }
    if (values.size() == count_max) {
      return lies(tensor,
                  std::string(field) + ": expected at most " + std::to_string(count_max) +
                      " numbers, found more");
    }
    values.push_back(static_cast<std::uint64_t>(*value));
  }
  return values;
}

// Product of the shape and the element size, or an error when it leaves 64 bits or is no whole
// bytes.
Result<std::uint64_t> declared_bytes(std::string_view tensor,
                                     std::span<const std::uint64_t> shape,
                                     std::size_t element_bits) {
  std::uint64_t bits = element_bits;
  for (const std::uint64_t extent : shape) {
    if (__builtin_mul_overflow(bits, extent, &bits)) {
      return lies(tensor, "expected a size below 2^64 bits, found the shape " + shape_text(shape));
    }
  }
  if (bits % 8 != 0) {
    return lies(tensor, "expected whole bytes, found " + std::to_string(bits) + " bits");
  }
  return bits / 8;
}

Result<SafetensorsEntry> read_entry(std::string_view tensor,
                                    const json::Value& fields,
                                    std::size_t data_start,
                                    std::size_t data_bytes) {
  if (fields.as_object() == nullptr) {
    return lies(tensor, "expected an object, found " + json::describe(fields));
  }
  SafetensorsEntry entry;
  PHALANX_TRY(const std::string_view dtype, read_dtype(tensor, fields));
  PHALANX_TRY(const std::size_t element_bits, dtype_bits(tensor, dtype));
  PHALANX_TRY(entry.shape, read_integers(tensor, fields, "shape", kMaxSafetensorsRank));
  PHALANX_TRY(const std::vector<std::uint64_t> range,
              read_integers(tensor, fields, "data_offsets", 2));
  PHALANX_TRY(const std::uint64_t expected, declared_bytes(tensor, entry.shape, element_bits));
  if (range.size() != 2 || range[0] > range[1]) {
    return lies(tensor, "data_offsets: expected [begin, end] with begin <= end");
  }
  if (range[1] > data_bytes) {
    return lies(tensor,
                "expected data_offsets within the " + std::to_string(data_bytes) +
                    " data bytes of the file, found the end " + std::to_string(range[1]) +
                    ": truncated");
  }
  if (range[1] - range[0] != expected) {
    return lies(tensor,
                "expected " + std::to_string(expected) + " bytes for " + std::string(dtype) + " " +
                    shape_text(entry.shape) + ", found " + std::to_string(range[1] - range[0]));
  }
  entry.dtype = std::string(dtype);
  entry.offset = data_start + static_cast<std::size_t>(range[0]);
  entry.bytes = static_cast<std::size_t>(expected);
  return entry;
}

Status check_overlap(const SafetensorsDirectory& directory) {
  std::vector<const SafetensorsDirectory::value_type*> by_offset;
  for (const auto& item : directory) {
    if (item.second.bytes != 0) {
      by_offset.push_back(&item);
    }
  }
  std::sort(by_offset.begin(), by_offset.end(), [](const auto* a, const auto* b) {
    return a->second.offset < b->second.offset;
  });
  for (std::size_t i = 1; i < by_offset.size(); ++i) {
    const auto& [before_name, before] = *by_offset[i - 1];
    const auto& [name, entry] = *by_offset[i];
    if (before.offset + before.bytes > entry.offset) {
      return lies(name,
                  "expected bytes of its own, found an overlap with tensor \"" +
                      before_name.substr(0, 256) + "\"");
    }
  }
  return ok();
}

Result<std::string_view> header_text(std::span<const std::byte> file) {
  if (file.size() < kPrefixBytes) {
    return data_loss("expected a safetensors file, found " +
                     (file.empty() ? "an empty one" : std::to_string(file.size()) + " bytes"));
  }
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), kPrefixBytes);
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    return data_loss("expected a safetensors file, with a header of at most " +
                     std::to_string(kMaxSafetensorsHeaderBytes) + " bytes, found " +
                     std::to_string(header_bytes) + " in its place: another kind of file");
  }
  if (header_bytes > file.size() - kPrefixBytes) {
    return data_loss("expected a header of " + std::to_string(header_bytes) +
                     " bytes, found a file that ends after " +
                     std::to_string(file.size() - kPrefixBytes) + ": truncated");
  }
  return std::string_view(reinterpret_cast<const char*>(file.data()) + kPrefixBytes,
                          static_cast<std::size_t>(header_bytes));
}

}  // namespace

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

Result<SafetensorsDirectory> parse_safetensors(std::span<const std::byte> file) {
  PHALANX_TRY(const std::string_view header, header_text(file));
  const auto root = json::parse(header, {.bytes_max = kMaxSafetensorsHeaderBytes});
  if (!root) {
    return data_loss("safetensors header: " + root.error().message());
  }
  if (root->as_object() == nullptr) {
    return data_loss("safetensors header: expected an object, found " + json::describe(*root));
  }
  const std::size_t data_start = kPrefixBytes + header.size();
  SafetensorsDirectory directory;
  for (const auto& [name, value] : *root->as_object()) {
    if (name == "__metadata__") {
      continue;
    }
    if (name.size() > kMaxNameBytes || directory.size() == kMaxSafetensorsTensors) {
      return data_loss("safetensors header: expected at most " +
                       std::to_string(kMaxSafetensorsTensors) + " tensors with names of at most " +
                       std::to_string(kMaxNameBytes) + " bytes");
    }
    PHALANX_TRY(SafetensorsEntry entry,
                read_entry(name, value, data_start, file.size() - data_start));
    directory.emplace(name, std::move(entry));
  }
  PHALANX_RETURN_IF_ERROR(check_overlap(directory));
  return directory;
}

}  // namespace phalanx::checkpoint
