// SPDX-License-Identifier: Apache-2.0
// The GGUF container, versions 2 and 3, little endian:
//
//   "GGUF"  u32 version  u64 tensor count  u64 key count
//   per key:    string key, u32 value type, value
//   per tensor: string name, u32 dimensions, u64 size of each (fastest first), u32 type, u64 offset
//   padding to the alignment (general.alignment, 32 without it), then the tensor data, to which the
//   offsets are relative
//
// A string is a u64 length and that many bytes; an array is a u32 element type, a u64 count and
// that many values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/gguf/metadata.h"
#include "phalanx/gguf/tensor_type.h"

namespace phalanx::gguf {

inline constexpr std::uint32_t kDefaultAlignment = 32;
inline constexpr std::uint32_t kMaxAlignment = 1U << 20;
inline constexpr std::uint64_t kMaxTensors = 1'000'000;
inline constexpr std::uint64_t kMaxKeys = 1'000'000;
inline constexpr std::size_t kMaxKeyBytes = 65535;
inline constexpr std::size_t kMaxTensorNameBytes = 256;
inline constexpr std::size_t kMaxDimensions = 4;
inline constexpr std::size_t kMaxArrayDepth = 4;  // an array of numbers has depth 1

// A tensor as it lies in the file. `bytes` lies inside the file, is exactly as long as shape and
// type say, begins at the file's alignment and overlaps no other tensor.
struct Tensor {
  std::string_view name;
  TensorType type = TensorType::kF32;
  std::vector<std::uint64_t> shape;  // slowest first: {rows, columns}; the reverse of the file
  std::size_t offset = 0;            // of its bytes, from the start of the file
  std::span<const std::byte> bytes;

  [[nodiscard]] std::uint64_t elements() const;
};

// Whether the bytes begin as a GGUF file does.
[[nodiscard]] bool has_magic(std::span<const std::byte> bytes);

// A file that may be hostile: nothing is believed before it is checked, and no more is allocated
// than a small multiple of the bytes of the header.
//
// Ownership: borrows the bytes, which must outlive it. The data of tensors is not touched.
// Threads:   const access from many at once.
class File {
 public:
  // Errors: kDataLoss       not GGUF, truncated, or contradicts itself; the message names the key
  // or
  //                         the tensor, what was expected and what was found
  //         kUnimplemented  another version, big endian, or a tensor type nobody has heard of
  [[nodiscard]] static Result<File> parse(std::span<const std::byte> bytes);

  [[nodiscard]] std::uint32_t version() const { return version_; }
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  // Where the metadata ends: the bytes before are what parse_metadata() takes.
  [[nodiscard]] std::size_t metadata_bytes() const { return metadata_bytes_; }
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }  // in file order
  [[nodiscard]] const Tensor* find(std::string_view name) const;                 // nullptr: none

 private:
  friend class Reader;

  std::uint32_t version_ = 0;
  Metadata metadata_;
  std::size_t metadata_bytes_ = 0;
  std::vector<Tensor> tensors_;
  std::map<std::string_view, std::size_t> index_;
};

// The metadata of a file of which only the head is there: its first File::metadata_bytes() bytes.
// How many tensors the head promises is not looked at.
//
// Ownership: borrows the bytes, as the metadata of a File does.
// Errors: as File::parse for this part of a file; kDataLoss also for bytes behind the metadata
[[nodiscard]] Result<Metadata> parse_metadata(std::span<const std::byte> head);

}  // namespace phalanx::gguf
