// SPDX-License-Identifier: Apache-2.0
#include "fused_tasks.h"

#include <algorithm>
#include <span>

#include "fused_blocks.h"

namespace phalanx::model {
namespace {

using kernels::kRowTile;

constexpr std::size_t kGatherFloats = 256;  // of each row, in a tile

// The columns of the block as a leaf of their own. `x` holds them alone.
void code_columns(const TaskRuntime& runtime,
                  const kernels::QuantizeArgs& codes,
                  const FusedBlock& block,
                  const float* x) {
  const kernels::QuantizeLeaf leaf{0, block.columns.count};
  kernels::QuantizeArgs args;
  args.x = x;
  args.x_stride = block.columns.count;
  args.rows = block.rows;
  args.leaves = &leaf;
  args.leaf_count = 1;
  args.out = rows_from(codes.out, block.first_row, block.columns.first);
  run_rows(runtime.kernels->quantize, args);
}

// silu(gate) · up of a block that lies at args.gate and args.up, to where the task wants it; `wide`
// is memory for what becomes codes.
void gate_columns(const TaskRuntime& runtime,
                  kernels::SwigluArgs args,
                  const kernels::QuantizeArgs& codes,
                  const FusedBlock& block,
                  float* wide) {
  args.rows = block.rows;
  args.columns = block.columns.count;
  if (codes.leaf_count != 0) {
    args.out_wide = wide;
    args.out_stride = block.columns.count;
    run_rows(runtime.kernels->swiglu, args);
    code_columns(runtime, codes, block, wide);
    return;
  }
  const std::size_t at = block.first_row * args.out_stride + block.columns.first;
  if (args.out != nullptr) {
    args.out += at;
  } else {
    args.out_wide += at;
  }
  run_rows(runtime.kernels->swiglu, args);
}

// One row of the sum of all ranks' nodes. `registers` have room for the plan's.
void sum_row(const SumNormTask& task, std::size_t row, float* registers, float* out) {
  const std::size_t hidden = task.norm.kernel.hidden;
  const auto value_of = [&](collective::TreePlan::Operand which) -> const float* {
    return which.is_register ? registers + which.index * hidden
                             : task.nodes + which.index * task.node_stride + row * hidden;
  };
  const std::span<const collective::TreePlan::Step> steps = task.plan->steps();
  if (steps.empty()) {
    std::copy_n(value_of({}), hidden, out);
    return;
  }
  for (const collective::TreePlan::Step& step : steps) {
    const float* left = value_of(step.left);
    const float* right = value_of(step.right);
    float* sum = &step == &steps.back() ? out : registers + step.target * hidden;
    for (std::size_t i = 0; i < hidden; ++i) {
      sum[i] = left[i] + right[i];
    }
  }
}

// The codes of what attention has written, where it is to become codes.
void code_attended(const AttentionTask& task,
                   const TaskRuntime& runtime,
                   const kernels::AttentionTile& done) {
  if (task.codes.leaf_count == 0) {
    return;
  }
  const kernels::QuantizeLeaf* leaf = task.codes.leaves + done.kv_head;
  kernels::QuantizeArgs codes = task.codes;
  codes.x = task.kernel.out_wide + done.first_row * task.kernel.out_stride;
  codes.rows = done.row_count;
  codes.leaves = leaf;
  codes.leaf_count = done.head_count;
  codes.out = rows_from(codes.out, done.first_row, done.kv_head * kernels::padded_k(leaf->k));
  run_rows(runtime.kernels->quantize, codes);
}

// Who attends to a sequence in this layer will most likely do so in the next.
void list_next_layer(const AttentionTask& task, std::uint32_t tile, kernels::ReadAhead* ahead) {
  if (ahead == nullptr) {
    return;
  }
  ahead->begin(&task);
  if (task.next_layer != 0) {
    kernels::list_behind(task.kernel, tile, task.next_layer, ahead);
  }
}

// Norms rows that lie at norm.x, and leaves them from `to_row` on.
void norm_rows(const RmsNormTask& task,
               const TaskRuntime& runtime,
               kernels::RmsNormArgs norm,
               std::uint32_t to_row,
               float* wide) {
  if (task.codes.leaf_count == 0) {
    norm.out += to_row * norm.out_stride;
    runtime.kernels->rms_norm(norm, 0);
    return;
  }
  norm.out_wide = wide;
  norm.out_stride = norm.hidden;
  runtime.kernels->rms_norm(norm, 0);
  code_columns(runtime, task.codes, {to_row, norm.rows, {0, norm.hidden}}, wide);
}

}  // namespace

std::size_t norm_floats(std::uint32_t hidden) {
  return std::size_t{kRowTile} * hidden;
}

std::size_t swiglu_floats(const ColumnGroups& groups) {
  return std::size_t{kRowTile} * widest(groups);
}

std::size_t gated_floats(const ColumnGroups& groups) {
  return std::size_t{2} * kFusedRows * widest(groups);
}

std::size_t sum_norm_floats(const collective::TreePlan& plan, std::uint32_t hidden) {
  return 2 * norm_floats(hidden) + std::size_t{plan.registers()} * hidden;
}

std::uint32_t tiles_of(const SwigluTask& task) {
  return kernels::row_tiles(task.kernel.rows) * task.groups.count;
}

std::uint32_t tiles_of(const GatedProductTask& task) {
  return fused_tiles(task.groups, task.swiglu.rows);
}

void run_tile(const RmsNormTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread) {
  kernels::RmsNormArgs norm = task.kernel;
  const std::uint32_t first_row = tile * kRowTile;
  norm.rows = std::min(kRowTile, norm.rows - first_row);
  norm.x += first_row * norm.x_stride;
  if (norm.delta != nullptr) {
    norm.delta += first_row * norm.delta_stride;
  }
  norm_rows(task, runtime, norm, first_row, runtime.memory_of(thread));
}

Run rows_of_rank(std::uint32_t rows, std::uint32_t rank, std::uint32_t ranks) {
  if (rows < ranks * kRowTile) {
    return run_of(rows, rank, ranks);
  }
  const Run tiles = run_of(kernels::row_tiles(rows), rank, ranks);
  const std::uint32_t first = std::min(tiles.first * kRowTile, rows);
  return {first, std::min(tiles.end() * kRowTile, rows) - first};
}

void run_tile(const SumNormTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread) {
  kernels::RmsNormArgs norm = task.norm.kernel;
  const std::uint32_t row = task.own_rows.first + tile * kRowTile;
  norm.rows = std::min(kRowTile, task.own_rows.end() - row);
  float* wide = runtime.memory_of(thread);
  norm.x += row * norm.x_stride;
  if (task.plan != nullptr) {
    float* delta = wide + norm_floats(norm.hidden);
    float* registers = delta + norm_floats(norm.hidden);
    for (std::uint32_t i = 0; i < norm.rows; ++i) {
      sum_row(task, row + i, registers, delta + std::size_t{i} * norm.hidden);
    }
    norm.delta = delta;
    norm.delta_stride = norm.hidden;
  }
  norm_rows(task.norm, runtime, norm, row, wide);
}

std::uint32_t tiles_of(const GatherRowsTask& task) {
  return task.rows == 0
             ? 0
             : static_cast<std::uint32_t>((task.row_floats + kGatherFloats - 1) / kGatherFloats);
}

// All rows, from the first to the last: none is written before it is read where they stay in place.
void run_tile(const GatherRowsTask& task, std::uint32_t tile) {
  const float* from = task.from == nullptr ? task.to : task.from;
  const std::size_t first = std::size_t{tile} * kGatherFloats;
  const std::size_t count = std::min<std::size_t>(kGatherFloats, task.row_floats - first);
  for (std::uint32_t row = 0; row < task.rows; ++row) {
    const std::uint32_t source = task.source_rows == nullptr ? row : task.source_rows[row];
    const bool is_own = source >= task.own_rows.first && source < task.own_rows.end();
    if (is_own && (source != row || task.from != nullptr)) {
      std::copy_n(
          from + source * task.row_floats + first, count, task.to + row * task.row_floats + first);
    }
  }
}

void run_tile(const AttentionTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread) {
  runtime.kernels->attention(task.kernel, tile);
  list_next_layer(task, tile, runtime.ahead_of(thread));
  const kernels::AttentionTile done = kernels::attention_tile(task.kernel, tile);
  if (!done.is_part()) {
    code_attended(task, runtime, done);
  }
}

void run_fold_tile(const AttentionTask& task, const TaskRuntime& runtime, std::uint32_t tile) {
  runtime.kernels->attention_fold(task.kernel, tile);
  code_attended(task, runtime, kernels::attention_fold_tile(task.kernel, tile));
}

void run_tile(const SwigluTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread) {
  const FusedBlock block = block_of(task.groups, task.kernel.rows, kRowTile, tile);
  kernels::SwigluArgs args = task.kernel;
  args.gate += block.first_row * args.gate_stride + block.columns.first;
  args.up += block.first_row * args.up_stride + block.columns.first;
  gate_columns(runtime, args, task.codes, block, runtime.memory_of(thread));
}

void run_tile(const GatedProductTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread) {
  const FusedBlock block = block_of(task.groups, task.swiglu.rows, kFusedRows, tile);
  float* gate = runtime.memory_of(thread);
  float* up = gate + std::size_t{kFusedRows} * block.columns.count;
  multiply_block(runtime, task.gate, block, gate, thread);
  multiply_block(runtime, task.up, block, up, thread);
  kernels::SwigluArgs args = task.swiglu;
  args.gate = gate;
  args.gate_stride = block.columns.count;
  args.up = up;
  args.up_stride = block.columns.count;
  gate_columns(runtime, args, task.codes, block, gate);
}

}  // namespace phalanx::model
