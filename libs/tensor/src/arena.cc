// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tensor/arena.h"

#include <cstdlib>
#include <cstring>

#include "phalanx/base/check.h"

namespace phalanx::tensor {

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
