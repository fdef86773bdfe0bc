// SPDX-License-Identifier: Apache-2.0
// The inputs of matrix products.
#include <algorithm>

#include "phalanx/tensor/shape.h"

#include "forward_recorder.h"
#include "fused_blocks.h"
#include "fused_tasks.h"

namespace phalanx::model {

using kernels::ScaleSpan;

namespace {

// A scale for each row and leaf where the weights have one for each column, so that the whole leaf
// is summed as integers; finer ones where they have one for each group (docs/adr/0005).
ScaleSpan span_of(kernels::WeightFormat format) {
  return format == kernels::WeightFormat::kInt8 ? ScaleSpan::kLeaf : ScaleSpan::kBlock;
}

}  // namespace

ProductInput ForwardRecorder::product_input(const std::string& name,
                                            kernels::WeightFormat format,
                                            std::size_t rows,
                                            std::span<const std::size_t> leaf_columns) {
  ProductInput input;
  input.format = format;
  input.leaves = recorder_.array<kernels::QuantizeLeaf>(leaf_columns.size());
  for (std::size_t i = 0; i < leaf_columns.size(); ++i) {
    input.leaves[i] = {static_cast<std::uint32_t>(input.columns),
                       static_cast<std::uint32_t>(leaf_columns[i])};
    input.columns += leaf_columns[i];
  }
  if (!input.is_quantized()) {
    input.rows = recorder_.scratch(name, rows * input.columns * sizeof(kernels::Bf16));
    return input;
  }
  input.code_stride =
      kernels::code_stride(input.leaves.data(), static_cast<std::uint32_t>(input.leaves.size()));
  const std::size_t blocks = rows * input.code_stride / kernels::kDotBlock;
  input.codes = recorder_.scratch(name + " codes", rows * input.code_stride);
  input.sums = recorder_.scratch(name + " sums", blocks * sizeof(std::int32_t));
  input.scales = recorder_.scratch(name + " scales", blocks * sizeof(float));
  return input;
}

ColumnGroups ForwardRecorder::mlp_leaves() {
  const Units units = units_of(config_);
  const std::span<Run> runs = recorder_.array<Run>(shard_.mlp.count);
  for (std::uint32_t i = 0; i < runs.size(); ++i) {
    const Run blocks = units.mlp_blocks_of(shard_.mlp.first + i);
    runs[i] = {(blocks.first - shard_.mlp_blocks.first) * kMlpBlock, blocks.count * kMlpBlock};
  }
  return {runs.data(), shard_.mlp.count};
}

ColumnGroups ForwardRecorder::mlp_tiles() {
  constexpr std::uint32_t kColumns = kernels::kMatmulTileColumns;
  const auto columns = static_cast<std::uint32_t>(mlp_columns_);
  const std::span<Run> runs = recorder_.array<Run>((columns + kColumns - 1) / kColumns);
  for (std::uint32_t i = 0; i < runs.size(); ++i) {
    runs[i] = {i * kColumns, std::min(kColumns, columns - i * kColumns)};
  }
  return {runs.data(), static_cast<std::uint32_t>(runs.size())};
}

// The narrowest tiles leave most of the cache to weights. A scale for a leaf is known to who has
// all of it.
void ForwardRecorder::plan_groups(std::uint32_t threads) {
  leaf_groups_ = mlp_leaves();
  const bool by_leaf = active_.is_quantized() && span_of(active_.format) == ScaleSpan::kLeaf;
  const bool leaves_fit = widest(leaf_groups_) <= kMaxGatedColumns;
  gated_groups_ = by_leaf && leaves_fit ? leaf_groups_ : mlp_tiles();
  gates_are_coded_ = active_.is_quantized() && (!by_leaf || leaves_fit);
  if (active_.is_quantized() && !gates_are_coded_) {
    active_.rows = floats("active", mlp_columns_);
  }
  many_rows_.least = fewest_fused_rows(kFewestGatedRows, gated_groups_.count, threads);
  few_rows_.most = many_rows_.least - 1;
  thread_floats_ = gated_floats(gated_groups_);
  if (active_.is_quantized()) {
    thread_floats_ = std::max(thread_floats_, swiglu_floats(leaf_groups_));
  }
}

std::uint32_t ForwardRecorder::fewest_fused_rows(std::uint32_t fewest,
                                                 std::uint32_t groups,
                                                 std::uint32_t threads) {
  const std::uint32_t row_tiles = (2 * threads + groups - 1) / groups;
  return row_tiles == 1 ? fewest : kFusedRows * row_tiles;
}

kernels::QuantizeArgs ForwardRecorder::code_args(const ProductInput& input) const {
  kernels::QuantizeArgs args;
  if (input.is_quantized()) {
    args.x_stride = input.columns;
    args.leaves = input.leaves.data();
    args.leaf_count = static_cast<std::uint32_t>(input.leaves.size());
    args.out.code_stride = input.code_stride;
    args.out.span = span_of(input.format);
  }
  return args;
}

void ForwardRecorder::link_codes(kernels::QuantizeArgs* args,
                                 const ProductInput& input,
                                 Access access) {
  recorder_.link(input.codes, access, &args->out.codes);
  recorder_.link(input.sums, access, &args->out.sums);
  recorder_.link(input.scales, access, &args->out.scales);
}

void ForwardRecorder::link_normed(RmsNormTask* task, const ProductInput& input, Access access) {
  if (input.is_quantized()) {
    task->codes = code_args(input);
    link_codes(&task->codes, input, access);
    thread_floats_ = std::max(thread_floats_, norm_floats(config_.hidden));
  } else {
    recorder_.link(input.rows, access, &task->kernel.out);
  }
}

void ForwardRecorder::link_inputs(kernels::MatmulArgs* product,
                                  Activations* own,
                                  Activations* shared,
                                  const ProductInput& input) {
  product->activation_stride = input.is_quantized() ? 0 : input.columns;
  link_input(own, input, nullptr);
  link_input(shared, input, input.shared ? &*input.shared : nullptr);
  product->quantized = own->codes;
}

void ForwardRecorder::link_inputs(kernels::MatmulArgs* product,
                                  InputPlaces* places,
                                  const ProductInput& input) {
  places->exchanged = exchanged_;
  link_inputs(product, &places->own, &places->shared, input);
}

void ForwardRecorder::share_input(const kernels::MatmulArgs& other, kernels::MatmulArgs* product) {
  product->activation_stride = other.activation_stride;
  product->quantized = other.quantized;
}

void ForwardRecorder::link_input(Activations* to,
                                 const ProductInput& input,
                                 const SharedInput* shared) {
  const auto link = [&](BufferId own, std::size_t offset, auto** field) {
    if (shared != nullptr) {
      recorder_.link(*resident_.exchange, Access::kIn, field, offset);
    } else {
      recorder_.link(own, Access::kIn, field);
    }
  };
  const SharedInput at = shared != nullptr ? *shared : SharedInput();
  if (!input.is_quantized()) {
    link(input.rows, at.rows, &to->rows);
    return;
  }
  to->codes.code_stride = input.code_stride;
  to->codes.span = span_of(input.format);
  link(input.codes, at.codes, &to->codes.codes);
  link(input.sums, at.sums, &to->codes.sums);
  link(input.scales, at.scales, &to->codes.scales);
}

// The same in every step.
void ForwardRecorder::link_output(MatmulTask* task, BufferId out) {
  recorder_.link(out, Access::kOut, &task->own.out);
  recorder_.link(out, Access::kOut, &task->shared.out);
}

}  // namespace phalanx::model
