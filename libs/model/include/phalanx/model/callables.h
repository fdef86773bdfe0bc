// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/collective/communicator.h"
#include "phalanx/kernels/kernel_table.h"
#include "phalanx/kernels/rows.h"
#include "phalanx/kernels/thread_team.h"

namespace phalanx::model {

// Everything about a step that argument blocks depend on.
struct StepShape {
  std::uint32_t rows = 0;  // tokens computed
  kernels::AttentionPlan attention;
  std::uint32_t sequences = 0;               // items of the step
  std::uint32_t sample_rows = 0;             // items that draw a token; of these …
  kernels::AttentionPlan sampled_attention;  // … all
  std::uint32_t top_k_rows = 0;              // … those whose top_k excludes something
  std::uint32_t top_p_rows = 0;              // … those with top_p below 1
  std::uint32_t drawn_rows = 0;  // … those with a phase `draw`: not greedy, or with logprobs
};

// Which count of the step an operation follows.
enum class RowsOf : std::uint8_t {
  kAll,
  kSampled,   // once others have left, 0 … sample_rows - 1
  kNarrowed,  // the same, in steps that have others
  kTopK,
  kTopP,
  kDrawn
};

[[nodiscard]] constexpr std::uint32_t rows_of(RowsOf rows, const StepShape& shape) {
  switch (rows) {
    case RowsOf::kAll:
      return shape.rows;
    case RowsOf::kSampled:
      return shape.sample_rows;
    case RowsOf::kNarrowed:
      return shape.sample_rows < shape.rows ? shape.sample_rows : 0;
    case RowsOf::kTopK:
      return shape.top_k_rows;
    case RowsOf::kTopP:
      return shape.top_p_rows;
    case RowsOf::kDrawn:
      return shape.drawn_rows;
  }
  return 0;
}

// What tasks need besides their arguments.
struct TaskRuntime {
  const kernels::KernelTable* kernels = nullptr;
  collective::Communicator* group = nullptr;
  // [threads][thread_floats], 64-byte aligned: what a tile keeps to itself. ForwardProgram says how
  // much.
  float* thread_memory = nullptr;
  std::size_t thread_floats = 0;
  kernels::ReadAhead* ahead = nullptr;  // [threads], or null

  [[nodiscard]] float* memory_of(std::uint32_t thread) const {
    return thread_memory + thread * thread_floats;
  }
  [[nodiscard]] kernels::ReadAhead* ahead_of(std::uint32_t thread) const {
    return ahead != nullptr ? ahead + thread : nullptr;
  }
};

// The steps that a task works in, by the rows that it follows: of two ways to the same numbers one
// is faster with few rows.
struct RowRange {
  std::uint32_t least = 0;
  std::uint32_t most = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] constexpr bool holds(std::uint32_t rows) const {
    return rows >= least && rows <= most;
  }
};
inline constexpr RowRange kNoRows = {1, 0};

// The argument block of kHeadNormRope.
struct HeadNormRopeTask {
  kernels::HeadNormRopeArgs kernel;
  RowRange range;
  RowsOf rows = RowsOf::kAll;
};

// The kinds of task that a program may hold, by their place in the static table.
enum class Callable : std::uint16_t {
  kEmbedding,
  kRopeRows,
  kRmsNorm,
  kQuantize,
  kMatmul,
  kHeadNormRope,
  kHeads,
  kQueryProduct,
  kKeyValueProduct,
  kAttention,
  kAttentionFold,
  kSwiglu,
  kGatedProduct,
  kReduceTree,
  kMeet,
  kSumNorm,
  kGatherRows,
  kAllGather,
  kSampleShape,
  kSamplePeak,
  kSampleCount,
  kSampleSelect,
  kSampleDraw,
  kSampleFinish,
  kCallableCount
};

struct CallableRow {
  std::string_view name;
  std::size_t args_bytes = 0;
  // Sets row counts and the like in the argument block; returns the number of tiles, or for a
  // collective the number of bytes to move. 0 = nothing to do in this step.
  std::uint64_t (*refresh)(void* args, const StepShape& shape) = nullptr;
  // One tile. Null for a collective.
  void (*run)(const void* args,
              const TaskRuntime& runtime,
              std::uint32_t tile,
              std::uint32_t thread) = nullptr;
  // The whole of a collective, on the thread that runs the program. Null otherwise.
  Status (*meet)(void* args, const TaskRuntime& runtime) = nullptr;
  // Whether the recorded constants fit each other. Null when there is nothing to check.
  Status (*check)(const void* args) = nullptr;
};

[[nodiscard]] const CallableRow& callable_row(Callable callable);

// Fingerprint of the table's names, argument sizes and order: ranks of one group must agree on it.
[[nodiscard]] std::uint64_t callables_hash();

}  // namespace phalanx::model
