// SPDX-License-Identifier: Apache-2.0
// The inputs of matrix products.
#include "phalanx/tensor/shape.h"

#include "forward_recorder.h"

namespace phalanx::model {
namespace {

// A scale for each row and leaf where the weights have one for each column, so that the whole leaf
// is summed as integers; finer ones where they have one for each group (docs/adr/0005).
kernels::ScaleSpan span_of(kernels::WeightFormat format) {
  return format == kernels::WeightFormat::kInt8 ? kernels::ScaleSpan::kLeaf
                                                : kernels::ScaleSpan::kBlock;
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
  input.rows = recorder_.scratch(name, rows * input.columns * sizeof(float));
  input.codes = recorder_.scratch(name + " codes", rows * input.code_stride);
  input.sums = recorder_.scratch(name + " sums", blocks * sizeof(std::int32_t));
  input.scales = recorder_.scratch(name + " scales", blocks * sizeof(float));
  return input;
}

void ForwardRecorder::quantize(const std::string& name, const ProductInput& input, RowsOf rows) {
  if (!input.is_quantized()) {
    return;
  }
  QuantizeTask args;
  args.rows = rows;
  args.kernel.x_stride = input.columns;
  args.kernel.leaves = input.leaves.data();
  args.kernel.leaf_count = static_cast<std::uint32_t>(input.leaves.size());
  args.kernel.out.code_stride = input.code_stride;
  args.kernel.out.span = span_of(input.format);
  auto* task = recorder_.task(Callable::kQuantize, prefix_ + name, args);
  recorder_.link(input.rows, Access::kIn, &task->kernel.x);
  recorder_.link(input.codes, Access::kOut, &task->kernel.out.codes);
  recorder_.link(input.sums, Access::kOut, &task->kernel.out.block_sums);
  recorder_.link(input.scales, Access::kOut, &task->kernel.out.scales);
}

void ForwardRecorder::link_activations(MatmulTask* task, const ProductInput& input) {
  if (!input.is_quantized()) {
    task->kernel.activation_stride = input.columns;
    recorder_.link(input.rows, Access::kIn, &task->kernel.activations);
    return;
  }
  kernels::QuantizedRows& rows = task->kernel.quantized;
  rows.code_stride = input.code_stride;
  rows.span = span_of(input.format);
  recorder_.link(input.codes, Access::kIn, &rows.codes);
  recorder_.link(input.sums, Access::kIn, &rows.block_sums);
  recorder_.link(input.scales, Access::kIn, &rows.scales);
}

}  // namespace phalanx::model
