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

// The blocks that hold elements from one on, at most kPiece.
struct BlockRun {
  std::size_t offset = 0;  // of the first block, in bytes
  std::size_t blocks = 0;
  std::size_t skip = 0;   // elements of the blocks before the first that is asked for
  std::size_t count = 0;  // of those that are
};

// `first` is counted from the beginning of the tensor. Rows are whole blocks, so that no block
// crosses from one to the next.
BlockRun run_of(const WeightTensor& tensor, std::uint64_t first, std::size_t wanted) {
  const gguf::TypeTraits& traits = gguf::traits_of(tensor.type);
  BlockRun run;
  run.skip = static_cast<std::size_t>(first % traits.block_elements);
  run.count = std::min(kPiece - run.skip, wanted);
  run.blocks = (run.skip + run.count + traits.block_elements - 1) / traits.block_elements;
  run.offset = static_cast<std::size_t>(first / traits.block_elements) * traits.block_bytes;
  return run;
}

// Of whole blocks, at most kPiece elements.
void decode_blocks(const WeightTensor& tensor,
                   std::span<const std::byte> blocks,
                   std::span<float> out) {
  if (tensor.scale == 1.0F) {
    return gguf::decode(tensor.type, blocks, out);
  }
  std::array<std::int8_t, kPiece> codes;
  std::array<float, kPiece / gguf::kCodeGroup> scales;
  std::array<float, kPiece / gguf::kCodeGroup> minima;
  gguf::decode_codes(tensor.type,
                     blocks,
                     {std::span(codes).first(out.size()),
                      std::span(scales).first(out.size() / gguf::kCodeGroup),
                      std::span(minima).first(out.size() / gguf::kCodeGroup)});
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(codes[i]) * (scales[i / gguf::kCodeGroup] * tensor.scale);
  }
}

// Elements [first, first + out.size()) of a tensor, `first` counted from its beginning.
void read_run(const WeightTensor& tensor, std::uint64_t first, std::span<tensor::Bf16> out) {
  if (tensor.type == gguf::TensorType::kBF16) {
    std::memcpy(out.data(), tensor.bytes.data() + first * sizeof(tensor::Bf16), out.size_bytes());
    return;
  }
  const gguf::TypeTraits& traits = gguf::traits_of(tensor.type);
  std::array<float, kPiece> values;
  for (std::size_t done = 0; done < out.size();) {
    const BlockRun run = run_of(tensor, first + done, out.size() - done);
    decode_blocks(tensor,
                  tensor.bytes.subspan(run.offset, run.blocks * traits.block_bytes),
                  std::span(values).first(run.blocks * traits.block_elements));
    tensor::to_bf16(values.data() + run.skip, out.data() + done, run.count);
    done += run.count;
  }
}

}  // namespace

void WeightTensor::read_codes(std::uint64_t row,
                              std::uint64_t first,
                              const gguf::CodeSpans& out) const {
  PHALANX_CHECK(row < rows && first + out.codes.size() <= columns &&
                    first % gguf::kCodeGroup == 0 && out.codes.size() % gguf::kCodeGroup == 0,
                "weight codes out of range");
  PHALANX_CHECK(out.superscales.empty() ||
                    (first % gguf::kSuperblock == 0 && out.codes.size() % gguf::kSuperblock == 0),
                "weight codes that are no whole superblocks");
  const gguf::TypeTraits& traits = gguf::traits_of(type);
  const std::uint64_t stored = interleaved_head == 0 ? row : interleaved(row, interleaved_head);
  std::array<std::int8_t, kPiece> codes;
  std::array<float, kPiece / gguf::kCodeGroup> scales;
  std::array<float, kPiece / gguf::kCodeGroup> minima;
  std::array<float, kPiece / gguf::kSuperblock> superscales;
  std::array<float, kPiece / gguf::kSuperblock> superminima;
  const bool two_levels = !out.superscales.empty();
  for (std::size_t done = 0; done < out.codes.size();) {
    const BlockRun run = run_of(*this, stored * columns + first + done, out.codes.size() - done);
    const std::size_t groups = run.blocks * traits.block_elements / gguf::kCodeGroup;
    const std::size_t superblocks = two_levels ? groups * gguf::kCodeGroup / gguf::kSuperblock : 0;
    gguf::decode_codes(type,
                       bytes.subspan(run.offset, run.blocks * traits.block_bytes),
                       {std::span(codes).first(groups * gguf::kCodeGroup),
                        std::span(scales).first(groups),
                        std::span(minima).first(groups),
                        std::span(superscales).first(superblocks),
                        std::span(superminima).first(superblocks)});
    const std::size_t skip = run.skip / gguf::kCodeGroup;
    const std::size_t to = done / gguf::kCodeGroup;
    std::copy_n(&codes[run.skip], run.count, &out.codes[done]);
    std::transform(&scales[skip],
                   &scales[skip] + run.count / gguf::kCodeGroup,
                   &out.scales[to],
                   [this](float of_group) { return of_group * scale; });
    std::copy_n(&minima[skip], run.count / gguf::kCodeGroup, &out.minima[to]);
    if (two_levels) {
      const std::size_t count = run.count / gguf::kSuperblock;
      std::copy_n(&superscales[run.skip / gguf::kSuperblock],
                  count,
                  &out.superscales[done / gguf::kSuperblock]);
      std::copy_n(&superminima[run.skip / gguf::kSuperblock],
                  count,
                  &out.superminima[done / gguf::kSuperblock]);
    }
    done += run.count;
  }
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
