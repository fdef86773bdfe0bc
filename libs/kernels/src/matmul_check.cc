// SPDX-License-Identifier: Apache-2.0
// What a product demands of its weights and activations.
#include <string>
#include <utility>

#include "phalanx/kernels/matmul.h"

namespace phalanx::kernels {

namespace {

Status check_bf16_leaf(const MatmulArgs& args, const MatmulLeaf& leaf) {
  if (std::size_t{leaf.first_k} + leaf.weight.rows > args.activation_stride) {
    return invalid_argument("expected inputs among " + std::to_string(args.activation_stride) +
                            " activations, found " + std::to_string(leaf.weight.rows) + " from " +
                            std::to_string(leaf.first_k));
  }
  return ok();
}

Status check_integer_leaf(const MatmulArgs& args, const MatmulLeaf& leaf) {
  const std::size_t k = padded_k(leaf.weight.rows);
  if (leaf.first_k % kDotBlock != 0 || leaf.first_k + k > args.quantized.code_stride) {
    return invalid_argument("expected inputs from a multiple of 32 among " +
                            std::to_string(args.quantized.code_stride) + " codes, found " +
                            std::to_string(k) + " from " + std::to_string(leaf.first_k));
  }
  return ok();
}

Status check_leaf(const MatmulArgs& args, const MatmulLeaf& leaf) {
  PHALANX_RETURN_IF_ERROR(check_weight(leaf.weight));
  const WeightFormat format = args.leaves[0].weight.format;
  if (leaf.weight.format != format) {
    return invalid_argument("expected " + std::string(weight_format_name(format)) +
                            " as in leaf 0, found " +
                            std::string(weight_format_name(leaf.weight.format)));
  }
  if (leaf.weight.columns < args.columns) {
    return invalid_argument("expected at least " + std::to_string(args.columns) +
                            " columns, found " + std::to_string(leaf.weight.columns));
  }
  return format == WeightFormat::kBf16 ? check_bf16_leaf(args, leaf)
                                       : check_integer_leaf(args, leaf);
}

Status check_activations(const MatmulArgs& args) {
  const QuantizedRows& quantized = args.quantized;
  if (args.leaves[0].weight.format == WeightFormat::kBf16) {
    return quantized.code_stride == 0
               ? ok()
               : invalid_argument("bf16 weights take bf16 activations, found quantised ones");
  }
  if (args.activation_stride != 0 || quantized.code_stride == 0) {
    return invalid_argument("weights of integers take quantised activations, found bf16 ones");
  }
  if (quantized.code_stride % kCodeAlignment != 0) {
    return invalid_argument("expected a code stride that is a multiple of 64, found " +
                            std::to_string(quantized.code_stride));
  }
  if (quantized.span != ScaleSpan::kLeaf && quantized.span != ScaleSpan::kBlock) {
    return invalid_argument("expected scales of leaves or blocks, found span " +
                            std::to_string(static_cast<unsigned>(quantized.span)));
  }
  return ok();
}

}  // namespace

Status check_matmul(const MatmulArgs& args) {
  if (args.leaf_count == 0 || args.leaf_count > kMaxLeaves) {
    return invalid_argument("expected 1 to " + std::to_string(kMaxLeaves) + " leaves, found " +
                            std::to_string(args.leaf_count));
  }
  if (args.row_run >= args.row_runs) {
    return invalid_argument("expected a run of rows below their number, " +
                            std::to_string(args.row_runs) + ", found " +
                            std::to_string(args.row_run));
  }
  for (std::uint32_t i = 0; i < args.leaf_count; ++i) {
    if (auto checked = check_leaf(args, args.leaves[i]); !checked) {
      return std::move(checked).error().with("leaf " + std::to_string(i));
    }
  }
  return check_activations(args);
}

}  // namespace phalanx::kernels
