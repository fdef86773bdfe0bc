// SPDX-License-Identifier: Apache-2.0
#include "exchange.h"

#include <algorithm>

#include "phalanx/collective/summation_tree.h"
#include "phalanx/kernels/quantize.h"
#include "phalanx/tensor/shape.h"

namespace phalanx::model {
namespace {

std::size_t node_count(std::uint32_t leaves, std::uint32_t ranks) {
  std::size_t nodes = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    nodes += collective::covering_nodes(leaves, collective::leaf_run(leaves, rank, ranks)).size();
  }
  return nodes;
}

class Places {
 public:
  std::size_t take(std::size_t bytes) {
    const std::size_t at = bytes_;
    bytes_ += tensor::round_up(bytes, tensor::kRowAlignment);
    return at;
  }

  SharedInput take_input(kernels::WeightFormat format, std::size_t rows, std::uint32_t hidden) {
    SharedInput input;
    if (format == kernels::WeightFormat::kBf16) {
      input.rows = take(rows * hidden * sizeof(kernels::Bf16));
      return input;
    }
    const kernels::QuantizeLeaf leaf{0, hidden};
    const std::size_t codes = rows * kernels::code_stride(&leaf, 1);
    input.codes = take(codes);
    input.sums = take(codes / kernels::kDotBlock * sizeof(std::int32_t));
    input.scales = take(codes / kernels::kDotBlock * sizeof(float));
    return input;
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace

ExchangeLayout exchange_layout(const checkpoint::ModelConfig& config,
                               const step::RankLimits& limits,
                               std::uint32_t ranks) {
  const Units units = units_of(config);
  const std::size_t rows = limits.max_num_batched_tokens;
  const std::size_t nodes =
      std::max(node_count(units.attention, ranks), node_count(units.mlp, ranks));
  Places places;
  ExchangeLayout layout;
  layout.normed = places.take_input(config.formats.layer(0).q, rows, config.hidden);
  layout.sampled = places.take_input(config.formats.head, limits.max_num_seqs, config.hidden);
  layout.x = places.take(std::size_t{limits.max_num_seqs} * config.hidden * sizeof(float));
  layout.nodes = places.take(nodes * rows * config.hidden * sizeof(float));
  layout.bytes = places.bytes();
  return layout;
}

}  // namespace phalanx::model
