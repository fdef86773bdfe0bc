// SPDX-License-Identifier: Apache-2.0
// Argument blocks of the callables. Pointers are links of the program, or constants for memory that
// the program's owner keeps; counts are refreshed in every step.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "phalanx/collective/summation_tree.h"
#include "phalanx/kernels/kernel_table.h"
#include "phalanx/kernels/rows.h"
#include "phalanx/model/callables.h"
#include "phalanx/model/sampler.h"
#include "phalanx/model/shard_plan.h"

namespace phalanx::model {

struct RopeRowsTask {
  kernels::RopeRowsArgs kernel;
  RowsOf rows = RowsOf::kAll;
};

// With codes: out_wide is the memory of a thread, and what is in it becomes codes.
struct RmsNormTask {
  kernels::RmsNormArgs kernel;
  kernels::QuantizeArgs codes;
  RowsOf rows = RowsOf::kAll;
  RowRange range;
};

// The input of a product: one of the two.
struct Activations {
  const kernels::Bf16* rows = nullptr;
  kernels::QuantizedRows codes;
};

// Where a product finds its input in a step of so many rows: with the rank, or in what the ranks
// exchange rows in.
struct InputPlaces {
  RowRange exchanged = kNoRows;
  Activations own;
  Activations shared;

  [[nodiscard]] const Activations& of(std::uint32_t rows) const {
    return exchanged.holds(rows) ? shared : own;
  }
};

// Where a product reads and writes.
struct ProductPlace {
  Activations in;
  float* out = nullptr;
  std::size_t node_stride = 0;
};

// A step takes one of the two places: the rank's own, or what the ranks exchange rows in.
struct MatmulTask {
  kernels::MatmulArgs kernel;
  RowsOf rows = RowsOf::kAll;
  RowRange range;
  RowRange exchanged = kNoRows;
  ProductPlace own;
  ProductPlace shared;
};

struct QuantizeTask {
  kernels::QuantizeArgs kernel;
  RowRange range;
  RowsOf rows = RowsOf::kAll;
};

// With codes: a leaf for each KV head, of what is in out_wide.
struct AttentionTask {
  kernels::AttentionArgs kernel;
  kernels::QuantizeArgs codes;
  RowsOf rows = RowsOf::kAll;  // or kSampled
  // Bytes from the keys and values of this layer to those of the next; 0: this is the last.
  std::size_t next_layer = 0;
};

// Runs of the columns of a product of this rank. Of an MLP with codes each is a leaf, or whole
// groups of scales; of heads each has whole heads.
struct ColumnGroups {
  const Run* runs = nullptr;
  std::uint32_t count = 0;
};

// Of gates and ups in memory. With codes: as RmsNormTask.
struct SwigluTask {
  kernels::SwigluArgs kernel;
  kernels::QuantizeArgs codes;
  ColumnGroups groups;
  RowRange range;
  RowsOf rows = RowsOf::kAll;
};

// Both products of an MLP and what follows, without gates and ups in memory that threads share.
struct GatedProductTask {
  kernels::MatmulArgs gate;
  kernels::MatmulArgs up;
  kernels::SwigluArgs swiglu;
  kernels::QuantizeArgs codes;  // leaf_count 0: none, out or out_wide of `swiglu` is the result
  ColumnGroups groups;
  RowRange range;
  RowsOf rows = RowsOf::kAll;
  InputPlaces input;
};

// Queries, keys and values in memory, and what follows: queries up to attention, keys and values up
// to the KV cache; key.out and append.keys are memory of the thread. A tile has a KV head of some
// rows, and the query heads of its group.
struct HeadsTask {
  kernels::HeadNormRopeArgs query;  // heads = 0: keys and values alone
  kernels::HeadNormRopeArgs key;
  kernels::KvAppendArgs append;
  std::uint32_t threads = 1;
  RowRange range;
};

// The product of query heads and what follows; heads.x is memory of the thread.
struct QueryProductTask {
  kernels::MatmulArgs product;
  kernels::HeadNormRopeArgs heads;
  ColumnGroups groups;
  RowRange range;
  RowsOf rows = RowsOf::kAll;
  InputPlaces input;
};

// Both products of KV heads and what follows, up to the KV cache; heads.x, heads.out and what is
// appended is memory of the thread.
struct KeyValueProductTask {
  kernels::MatmulArgs key;
  kernels::MatmulArgs value;
  kernels::HeadNormRopeArgs heads;
  kernels::KvAppendArgs append;
  ColumnGroups groups;
  RowRange range;
  InputPlaces input;
};

// A meeting of the ranks: what each has written before is there for all.
struct MeetTask {
  RowRange range;
  RowsOf rows = RowsOf::kAll;
};

// The rows of this rank. It writes the sum of what all ranks have left, the residual stream, and
// the norm, which all ranks then read.
struct SumNormTask {
  RmsNormTask norm;                            // kernel.delta is memory of the thread
  const collective::TreePlan* plan = nullptr;  // null: nothing is added
  const float* nodes = nullptr;                // [plan->nodes()][rows][hidden]
  std::size_t node_stride = 0;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  RowRange range;
  Run own_rows;  // of this step
};

// Nodes of one rank: at most two per level of a tree over kMaxLeaves leaves.
inline constexpr std::uint32_t kMaxNodes = 16;
static_assert(kMaxNodes >= 2 * (std::bit_width(kernels::kMaxLeaves) - 1));

struct ReduceTreeTask {
  const collective::TreePlan* plan = nullptr;
  float* nodes = nullptr;  // [node_count][…]; the sum replaces the first
  std::size_t node_stride = 0;
  std::uint32_t node_count = 0;
  std::uint32_t row_floats = 0;
  std::size_t floats = 0;  // of this step
  RowRange range;
  RowsOf rows = RowsOf::kAll;
};

// The rows that sample become the first ones, in steps that have others too. Which rows a rank has
// is a matter of all rows of the step.
struct GatherRowsTask {
  const float* from = nullptr;                 // null: `to`
  const std::uint32_t* source_rows = nullptr;  // in `from`, ascending; null: the first ones
  float* to = nullptr;
  std::size_t row_floats = 0;
  std::uint32_t rank = 0;  // only of rows that this rank of so many has
  std::uint32_t ranks = 1;
  RowRange range;          // of all rows
  std::uint32_t rows = 0;  // of this step
  Run own_rows;            // of this step
};

struct AllGatherTask {
  const std::byte* own = nullptr;
  std::byte* all = nullptr;
  std::size_t row_bytes = 0;
  RowsOf rows = RowsOf::kSampled;
  std::size_t bytes = 0;  // of one rank in this step
};

struct SampleTask {
  Sampler* sampler = nullptr;
  const float* logits = nullptr;
  float* shaped = nullptr;  // written by kSampleShape only
  void* own = nullptr;      // records of this rank
  const void* all = nullptr;
  SampledToken* results = nullptr;
  Selection selection = Selection::kTopK;
  std::uint32_t pass = 0;
  RowsOf rows = RowsOf::kSampled;
};

}  // namespace phalanx::model
