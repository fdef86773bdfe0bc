// SPDX-License-Identifier: Apache-2.0
// From the products of heads to queries and the KV cache.
#include <algorithm>

#include "fused_blocks.h"
#include "fused_tasks.h"

namespace phalanx::model {
namespace {

// A row tile of heads is divided among so many tiles, at most: one row alone is a matter of a
// microsecond, and many rows are enough for many threads.
constexpr std::uint32_t kHeadRuns = 4;

// The heads of a block, which lie at `x`, to args.out.
void norm_heads(const TaskRuntime& runtime,
                kernels::HeadNormRopeArgs args,
                const FusedBlock& block,
                const float* x,
                std::size_t x_stride) {
  args.x = x;
  args.x_stride = x_stride;
  args.cos += block.first_row * args.rope_stride;
  args.sin += block.first_row * args.rope_stride;
  args.rows = block.rows;
  args.heads = block.columns.count / args.head_dim;
  run_rows(runtime.kernels->head_norm_rope, args);
}

// Keys in bf16, which lie at `keys` alone, and values, which lie at `values`, to the KV cache.
void append_heads(const TaskRuntime& runtime,
                  kernels::KvAppendArgs args,
                  const FusedBlock& block,
                  const kernels::Bf16* keys,
                  const float* values,
                  std::size_t value_stride) {
  args.keys = keys;
  args.key_stride = block.columns.count;
  args.values = values;
  args.value_stride = value_stride;
  args.slots += block.first_row;
  args.kv.data += block.columns.first / args.head_dim * args.kv.head_stride;
  args.rows = block.rows;
  args.kv_heads = block.columns.count / args.head_dim;
  for (std::uint32_t tile = 0; tile < kernels::kv_append_tiles(args); ++tile) {
    runtime.kernels->kv_append(args, tile);
  }
}

std::uint32_t head_runs(const kernels::HeadNormRopeArgs& args) {
  return std::min(kHeadRuns, args.heads);
}

// Some rows of the columns of some heads.
FusedBlock head_block(const kernels::HeadNormRopeArgs& args, Run rows, Run heads) {
  return {rows.first, rows.count, {heads.first * args.head_dim, heads.count * args.head_dim}};
}

// Run `index` of runs of `most` rows.
Run rows_of_run(std::uint32_t rows, std::uint32_t most, std::uint32_t index) {
  const std::uint32_t first = index * most;
  return {first, std::min(most, rows - first)};
}

std::uint32_t rows_at_once(const HeadsTask& task) {
  const std::uint32_t of_thread = (task.append.rows + task.threads - 1) / task.threads;
  return std::clamp(of_thread, 1U, kernels::kRowTile);
}

// Some heads of rows in memory, to where their place in all rows is.
void norm_heads_in_memory(const TaskRuntime& runtime,
                          kernels::HeadNormRopeArgs heads,
                          Run rows,
                          Run some) {
  const FusedBlock block = head_block(heads, rows, some);
  const std::size_t first = block.first_row * heads.x_stride + block.columns.first;
  heads.out += block.first_row * heads.out_stride + block.columns.first;
  norm_heads(runtime, heads, block, heads.x + first, heads.x_stride);
}

}  // namespace

std::size_t query_floats(const ColumnGroups& groups) {
  return std::size_t{kFusedRows} * widest(groups);
}

// Keys and values, and the keys in bf16; those of a tile of a HeadsTask are fewer.
std::size_t key_value_floats(const ColumnGroups& groups) {
  return std::size_t{3} * kFusedRows * widest(groups);
}

std::uint32_t tiles_of(const QueryProductTask& task) {
  return fused_tiles(task.groups, task.heads.rows);
}

std::uint32_t tiles_of(const KeyValueProductTask& task) {
  return fused_tiles(task.groups, task.append.rows);
}

void run_tile(const QueryProductTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread) {
  const FusedBlock block = block_of(task.groups, task.heads.rows, kFusedRows, tile);
  float* x = runtime.memory_of(thread);
  multiply_block(runtime, task.product, block, x, thread);
  kernels::HeadNormRopeArgs heads = task.heads;
  heads.out += block.first_row * heads.out_stride + block.columns.first;
  norm_heads(runtime, heads, block, x, block.columns.count);
}

void run_tile(const KeyValueProductTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread) {
  const FusedBlock block = block_of(task.groups, task.append.rows, kFusedRows, tile);
  const std::uint32_t columns = block.columns.count;
  float* key = runtime.memory_of(thread);
  float* value = key + std::size_t{kFusedRows} * columns;
  auto* rounded = reinterpret_cast<kernels::Bf16*>(value + std::size_t{kFusedRows} * columns);
  multiply_block(runtime, task.key, block, key, thread);
  multiply_block(runtime, task.value, block, value, thread);
  kernels::HeadNormRopeArgs heads = task.heads;
  heads.out = rounded;
  heads.out_stride = columns;
  norm_heads(runtime, heads, block, key, columns);
  append_heads(runtime, task.append, block, rounded, value, columns);
}

std::uint32_t tiles_of(const HeadNormRopeTask& task) {
  return kernels::row_tiles(task.kernel.rows) * head_runs(task.kernel);
}

std::uint32_t tiles_of(const HeadsTask& task) {
  const std::uint32_t most = rows_at_once(task);
  return (task.append.rows + most - 1) / most * task.append.kv_heads;
}

void run_tile(const HeadNormRopeTask& task, const TaskRuntime& runtime, std::uint32_t tile) {
  const kernels::HeadNormRopeArgs& heads = task.kernel;
  const std::uint32_t runs = head_runs(heads);
  norm_heads_in_memory(runtime,
                       heads,
                       rows_of_run(heads.rows, kernels::kRowTile, tile / runs),
                       run_of(heads.heads, tile % runs, runs));
}

void run_tile(const HeadsTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread) {
  const kernels::KvAppendArgs& append = task.append;
  const std::uint32_t head = tile % append.kv_heads;
  const Run rows = rows_of_run(append.rows, rows_at_once(task), tile / append.kv_heads);
  if (task.query.heads != 0) {
    norm_heads_in_memory(
        runtime, task.query, rows, run_of(task.query.heads, head, append.kv_heads));
  }
  kernels::HeadNormRopeArgs keys = task.key;
  const FusedBlock block = head_block(keys, rows, {head, 1});
  const std::size_t key = block.first_row * keys.x_stride + block.columns.first;
  const std::size_t value = block.first_row * append.value_stride + block.columns.first;
  auto* rounded = reinterpret_cast<kernels::Bf16*>(runtime.memory_of(thread));
  keys.out = rounded;
  keys.out_stride = block.columns.count;
  norm_heads(runtime, keys, block, keys.x + key, keys.x_stride);
  append_heads(runtime, append, block, rounded, append.values + value, append.value_stride);
}

}  // namespace phalanx::model
