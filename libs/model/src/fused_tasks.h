// SPDX-License-Identifier: Apache-2.0
// Tasks of more than one operation. A tile runs them one after the other on the same rows and
// columns, so that what one hands to the next is in the cache of its thread, and no other thread
// waits for it. The kernels are those of separate tasks, and so are the bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "phalanx/model/callables.h"

#include "task_args.h"

namespace phalanx::model {

inline constexpr std::uint32_t kFewestGatedRows = 16;
inline constexpr std::uint32_t kMaxGatedColumns = 256;  // of a tile

// Floats of a thread's memory that a tile takes.
[[nodiscard]] std::size_t norm_floats(std::uint32_t hidden);          // with codes
[[nodiscard]] std::size_t swiglu_floats(const ColumnGroups& groups);  // with codes
[[nodiscard]] std::size_t gated_floats(const ColumnGroups& groups);
[[nodiscard]] std::size_t query_floats(const ColumnGroups& groups);
[[nodiscard]] std::size_t key_value_floats(const ColumnGroups& groups);
[[nodiscard]] std::size_t sum_norm_floats(const collective::TreePlan& plan, std::uint32_t hidden);

[[nodiscard]] std::uint32_t tiles_of(const SwigluTask& task);
// Down the rows of the first group, then down those of the next, as those of a product.
[[nodiscard]] std::uint32_t tiles_of(const GatedProductTask& task);
[[nodiscard]] std::uint32_t tiles_of(const QueryProductTask& task);
[[nodiscard]] std::uint32_t tiles_of(const KeyValueProductTask& task);

// Some rows of some heads, then of the next ones, and the next rows.
[[nodiscard]] std::uint32_t tiles_of(const HeadNormRopeTask& task);
// As many rows as each thread has to do, at most a row tile: in their order threads take the rows
// that they attend to if all are of sequences with one row, and whose keys and values are in their
// own caches then.
[[nodiscard]] std::uint32_t tiles_of(const HeadsTask& task);

[[nodiscard]] std::uint32_t tiles_of(const GatherRowsTask& task);

// Which of so many rows are those of a rank, where ranks share them out: whole row tiles, or single
// rows where there is no tile for each rank.
[[nodiscard]] Run rows_of_rank(std::uint32_t rows, std::uint32_t rank, std::uint32_t ranks);

void run_tile(const RmsNormTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread);
void run_tile(const GatherRowsTask& task, std::uint32_t tile);
void run_tile(const AttentionTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread);
void run_fold_tile(const AttentionTask& task, const TaskRuntime& runtime, std::uint32_t tile);
void run_tile(const SwigluTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread);
void run_tile(const GatedProductTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread);
void run_tile(const QueryProductTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread);
void run_tile(const KeyValueProductTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread);
void run_tile(const HeadNormRopeTask& task, const TaskRuntime& runtime, std::uint32_t tile);
void run_tile(const HeadsTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread);
void run_tile(const SumNormTask& task,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread);

}  // namespace phalanx::model
