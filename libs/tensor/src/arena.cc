// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tensor/arena.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace phalanx::tensor {

Arena::Arena(std::span<std::byte> memory) : memory_(memory) {
  PHALANX_CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % kRowAlignment == 0,
                "arena memory must be 64-byte aligned");
}

Result<std::span<std::byte>> Arena::allocate(std::size_t bytes,
                                             std::string_view what,
                                             std::size_t alignment) {
  PHALANX_CHECK(alignment != 0 && (alignment & (alignment - 1)) == 0,
                "alignment must be a power of two");
  // Offsets are aligned, not addresses: they must be the same in every process. The memory itself
  // has to be aligned as strongly as its most strongly aligned piece.
  PHALANX_CHECK(reinterpret_cast<std::uintptr_t>(memory_.data()) % alignment == 0,
                "arena memory is less aligned than a piece of it");
  const std::size_t offset = round_up(used_, alignment);
  if (offset > memory_.size() || bytes > memory_.size() - offset) {
    return resource_exhausted(std::string(what) + " needs " + std::to_string(bytes) +
                              " bytes, the arena has " + std::to_string(memory_.size() - used_) +
                              " of " + std::to_string(memory_.size()) + " left");
  }
  used_ = offset + bytes;
  return memory_.subspan(offset, bytes);
}

std::size_t ArenaPlan::add(std::size_t bytes, std::size_t alignment) {
  const std::size_t offset = round_up(used_, alignment);
  used_ = offset + bytes;
  return offset;
}

AlignedBuffer::AlignedBuffer(std::size_t bytes, std::size_t alignment) : size_(bytes) {
  PHALANX_CHECK(alignment >= kRowAlignment && (alignment & (alignment - 1)) == 0,
                "alignment must be a power of two of at least 64");
  const std::size_t padded = round_up(bytes == 0 ? 1 : bytes, alignment);
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, padded)));
  PHALANX_CHECK(data_ != nullptr, "out of memory");
  std::memset(data_.get(), 0, padded);
}

void AlignedBuffer::Free::operator()(std::byte* data) const {
  std::free(data);
}

}  // namespace phalanx::tensor
