// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include "phalanx/base/check.h"
#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/tensor/half.h"

namespace phalanx::checkpoint {
namespace {

// Elements that are decoded at once: whole blocks of every type.
constexpr std::size_t kPiece = 1024;

// Where row i of a head, or its element i, lies in a file that holds the two halves interleaved.
std::uint64_t interleaved(std::uint64_t index, std::uint32_t head_dim) {
  const std::uint64_t in_head = index % head_dim;
  const std::uint64_t half = head_dim / 2;
  return index - in_head + 2 * (in_head % half) + in_head / half;
}

// Elements [first, first + out.size()) of a tensor, `first` counted from its beginning. Rows are
// whole blocks, so that no block crosses from one to the next.
void read_run(const WeightTensor& tensor, std::uint64_t first, std::span<tensor::Bf16> out) {
  if (tensor.type == gguf::TensorType::kBF16) {
    std::memcpy(out.data(), tensor.bytes.data() + first * sizeof(tensor::Bf16), out.size_bytes());
    return;
  }
  const gguf::TypeTraits& traits = gguf::traits_of(tensor.type);
  std::array<float, kPiece> values;
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t at = first + done;
    const std::size_t skip = static_cast<std::size_t>(at % traits.block_elements);
    const std::size_t count = std::min(kPiece - skip, out.size() - done);
    const std::size_t blocks = (skip + count + traits.block_elements - 1) / traits.block_elements;
    const auto from = static_cast<std::size_t>(at / traits.block_elements) * traits.block_bytes;
    gguf::decode(tensor.type,
                 tensor.bytes.subspan(from, blocks * traits.block_bytes),
                 std::span(values).first(blocks * traits.block_elements));
    tensor::to_bf16(values.data() + skip, out.data() + done, count);
    done += count;
  }
}

}  // namespace

void WeightTensor::read_blocks(std::uint64_t row,
                               std::uint64_t first,
                               std::uint64_t count,
                               std::span<std::byte> out) const {
  const gguf::TypeTraits& traits = gguf::traits_of(type);
  const std::uint64_t elements = traits.block_elements;
  PHALANX_CHECK(row < rows && first + count <= columns && first % elements == 0 &&
                    count % elements == 0 && out.size() == count / elements * traits.block_bytes,
                "weight blocks out of range");
  const std::uint64_t stored = interleaved_head == 0 ? row : interleaved(row, interleaved_head);
  const auto from =
      static_cast<std::size_t>((stored * columns + first) / elements) * traits.block_bytes;
  std::memcpy(out.data(), bytes.data() + from, out.size());
}

void WeightTensor::read_bf16(std::uint64_t row,
                             std::uint64_t first,
                             std::span<tensor::Bf16> out) const {
  PHALANX_CHECK(row < rows && first + out.size() <= columns, "weight row out of range");
  if (interleaved_head == 0) {
    return read_run(*this, row * columns + first, out);
  }
  if (rows > 1) {
    return read_run(*this, interleaved(row, interleaved_head) * columns + first, out);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    read_run(*this, interleaved(first + i, interleaved_head), out.subspan(i, 1));
  }
}

}  // namespace phalanx::checkpoint
