// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/kernels/quantize.h"
#include "phalanx/kernels/read_ahead.h"
#include "phalanx/kernels/weight.h"

namespace phalanx::kernels {

inline constexpr std::uint32_t kMaxLeaves = 64;  // leaves of one summation tree

// A run of the K axis with a dot product of its own: the leaf of the summation tree.
struct MatmulLeaf {
  WeightView weight;  // as many rows as the run has activation columns
  // Its first activation column; for weights of integers the first code, a multiple of 32, and with
  // ScaleSpan::kLeaf the first of a leaf that was quantised.
  std::uint32_t first_k = 0;
  // Partial sums form a stack. After this leaf has been pushed, the two topmost become one
  // (lower + upper) so many times; then, if `emit`, the top is the next finished node.
  std::uint32_t merges = 0;
  bool emit = true;
};

// Fills merges and emit of leaves [first, first + leaves.size()) of a summation tree over `total`
// leaves, and returns how many nodes they make: the largest subtrees that cover the run, in order.
// A tree over n leaves splits at the largest power of two below n (docs/arithmetic.md, "The
// summation tree").
//
// Requires: first + leaves.size() ≤ total ≤ kMaxLeaves.
std::uint32_t plan_leaves(std::uint32_t total, std::uint32_t first, std::span<MatmulLeaf> leaves);

// out[node][row][column] = sum over the leaves of the node of the dot product of the leaf, + bias.
//
//   activations  [rows, activation_stride]          bf16, row-major; for bf16 weights
//   quantized    [rows, code_stride]                for weights of integers
//   leaves       [leaf_count]                       leaf_count ≤ kMaxLeaves; of one format
//   out          [nodes, rows, out_stride]          f32; only the first `columns` of a row are
//                                                   written
//   bias         [columns]                          f32, or null: nothing is added
//
// A plain matrix product is one leaf with the default merges and emit. A row-parallel projection
// has one leaf per unit of the rank; its nodes are what the ranks exchange.
//
// Math: docs/arithmetic.md, "Dot product", "Integer formats", "Bias" and "The summation tree".
// Requires: no bias where a product has more than one node: it belongs to the whole sum
// (RmsNormArgs::delta_bias).
struct MatmulArgs {
  const Bf16* activations = nullptr;
  std::size_t activation_stride = 0;  // elements
  std::uint32_t rows = 0;
  const MatmulLeaf* leaves = nullptr;
  std::uint32_t leaf_count = 0;
  std::uint32_t columns = 0;
  float* out = nullptr;
  std::size_t out_stride = 0;   // elements from row to row
  std::size_t node_stride = 0;  // elements from node to node
  const float* bias = nullptr;
  QuantizedRows quantized = {};
  // Where the rows are one of several runs that a caller multiplies by the same columns one after
  // the other: which of how many. Says how much of the columns that come next may be fetched
  // meanwhile, and changes nothing else.
  std::uint32_t row_run = 0;
  std::uint32_t row_runs = 1;
  // Of the thread that computes the tile, or null: what it fetches besides weights.
  ReadAhead* ahead = nullptr;
};

// Tiles of one product: 64 rows by 64 columns each, numbered down the rows of the first 64 columns,
// then down those of the next: a thread that takes them in their order reads each weight once. Of
// very few rows some tables give a tile 32 columns of each half instead, so that it reads two
// streams. Tiles write disjoint outputs and may run in any order on any thread.
inline constexpr std::uint32_t kMatmulTileRows = 64;
inline constexpr std::uint32_t kMatmulTileColumns = kGroupColumns;
[[nodiscard]] std::uint32_t matmul_tiles(const MatmulArgs& args);

// Whether the weights of the leaves are ones that kernels read and fit the product, and the
// activations are of the kind that the weights take: the stride of the other kind is 0. For the
// place that builds the arguments: pointers are not looked at.
//
// Errors: kInvalidArgument  naming the leaf, with what was expected and what was found
[[nodiscard]] Status check_matmul(const MatmulArgs& args);

}  // namespace phalanx::kernels
