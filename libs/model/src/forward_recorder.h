// SPDX-License-Identifier: Apache-2.0
// How record_forward() works: one pass over the model that adds a task per operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "phalanx/kernels/matmul.h"

#include "arena_header.h"
#include "exchange.h"
#include "forward_program.h"
#include "task_args.h"

namespace phalanx::model {

// `columns` outputs of `rows` inputs of a matrix of the arena, or of one of its leaves.
inline kernels::WeightView arena_weight(kernels::WeightFormat format,
                                        std::size_t rows,
                                        std::size_t columns,
                                        std::size_t group_stride = 0) {
  return {.format = format,
          .rows = static_cast<std::uint32_t>(rows),
          .columns = static_cast<std::uint32_t>(columns),
          .group_stride = group_stride};
}

// Where a vector lies in the arena; nowhere when the model does not have it.
using VectorOffset = std::optional<std::size_t>;

inline VectorOffset where(bool has, std::size_t offset) {
  return has ? VectorOffset(offset) : std::nullopt;
}

// A part of the output columns of a product: those that a rank computes.
struct ColumnWeight {
  kernels::WeightFormat format = kernels::WeightFormat::kBf16;
  std::size_t matrix = 0;  // offset of the whole in the arena
  VectorOffset bias;       // of the whole
  std::size_t first = 0;   // column; a multiple of a strip
  std::size_t columns = 0;
};

// Of the heads of a rank.
struct HeadWeights {
  ColumnWeight q;
  ColumnWeight k;
  ColumnWeight v;
  VectorOffset q_gain;
  VectorOffset k_gain;
};

// The activations of matrix products, of `columns` for each row: bf16; or for weights of integers
// codes. `rows` are in fp32 then, and there where no thread keeps them to itself.
struct ProductInput {
  kernels::WeightFormat format = kernels::WeightFormat::kBf16;  // of a weight that takes them
  std::size_t columns = 0;
  BufferId rows;
  // For weights of integers.
  BufferId codes;
  BufferId sums;
  BufferId scales;
  std::size_t code_stride = 0;
  std::span<kernels::QuantizeLeaf> leaves;
  std::optional<SharedInput> shared;  // where ranks exchange it

  [[nodiscard]] bool is_quantized() const { return format != kernels::WeightFormat::kBf16; }
};

// What a norm adds to the residual stream first: `values`, or the sum of the tree where ranks
// exchange its nodes.
struct Delta {
  BufferId values;
  VectorOffset bias;
  const collective::TreePlan* tree = nullptr;
};

class ForwardRecorder {
 public:
  ForwardRecorder(const ForwardShape& shape, const ForwardInputs& inputs);

  Result<ForwardProgram> record() &&;

 private:
  void embed();
  void layer(std::uint32_t index);
  void attention(const LayerOffsets& offsets, std::uint32_t index);
  // Queries, and keys and values in the KV of the layer.
  void project_heads(const LayerOffsets& offsets, std::size_t kv_offset);
  // With many rows: what threads share of a head is what attention reads.
  void queries_in_tiles(const HeadWeights& weights);
  void keys_in_tiles(const HeadWeights& weights, std::size_t kv_offset);
  // With few rows, as gates_in_memory().
  void queries_in_memory(const HeadWeights& weights);
  // A task of keys and values that is linked to nothing yet.
  HeadsTask* heads_in_memory(const std::string& name);
  void link_queries(kernels::HeadNormRopeArgs* query, const HeadWeights& weights);
  void link_keys(HeadsTask* heads, const HeadWeights& weights, std::size_t kv_offset);
  // Tasks from here on are of the rows that sample, whose input of the products of a layer is
  // normed with `gain`.
  void narrow(std::size_t gain);
  void exchange_sampled();
  void rope(const std::string& name, const std::uint32_t* positions, Access access);
  [[nodiscard]] HeadWeights head_weights(const LayerOffsets& offsets) const;
  [[nodiscard]] kernels::HeadNormRopeArgs head_norm_args(std::size_t columns) const;
  void link_head_norm(kernels::HeadNormRopeArgs* args, VectorOffset gain);
  [[nodiscard]] kernels::KvAppendArgs append_args() const;
  void link_attended(AttentionTask* task, Access access);
  void attention_output(const LayerOffsets& offsets);
  void mlp(const LayerOffsets& offsets);
  void gated_product(const ColumnWeight& gate, const ColumnWeight& up);
  void gates_in_memory(const ColumnWeight& gate, const ColumnWeight& up);
  void mlp_output(const LayerOffsets& offsets);
  void head();
  void norm(const std::string& name,
            const ProductInput& input,
            std::size_t gain,
            const std::optional<Delta>& delta,
            Access access = Access::kOut);
  void exchange_norm(const std::string& name,
                     const ProductInput& input,
                     std::size_t gain,
                     const std::optional<Delta>& delta);
  void meet(const std::string& name);
  [[nodiscard]] RmsNormTask norm_args() const;
  void columns(const std::string& name,
               BufferId out,
               const ColumnWeight& weight,
               RowRange range = {});
  // The product with one matrix of an argument block, up to its output.
  void link_columns(kernels::MatmulArgs* product, const ColumnWeight& weight);
  [[nodiscard]] bool exchanges() const { return resident_.exchange.has_value(); }
  MatmulTask* leaf_task(const std::string& name,
                        const ProductInput& in,
                        BufferId nodes,
                        const collective::TreePlan* plan);
  void leaf(MatmulTask* task,
            std::span<kernels::MatmulLeaf> leaves,
            std::uint32_t index,
            std::size_t weight);
  void reduce(const std::string& name, BufferId nodes, const collective::TreePlan* plan);
  void link_vector(VectorOffset offset, const float** field);

  // The input of products with weights of `format` for `rows` rows of so many columns, quantised by
  // leaves of these sizes.
  [[nodiscard]] ProductInput product_input(const std::string& name,
                                           kernels::WeightFormat format,
                                           std::size_t rows,
                                           std::span<const std::size_t> leaf_columns);
  // One of the layers: what it says of the activations of its product is true for all of them.
  [[nodiscard]] kernels::WeightFormat layer_format() const { return config_.formats.layer(0).q; }
  [[nodiscard]] ProductInput attention_input();
  [[nodiscard]] ProductInput mlp_input();
  // The row operation that writes the input, or what becomes it.
  template <typename Args>
  void link_output(Args* args, const ProductInput& input, Access access = Access::kOut) {
    if (input.is_quantized()) {
      recorder_.link(input.rows, access, &args->out_wide);
    } else {
      recorder_.link(input.rows, access, &args->out);
    }
  }
  // The task that writes its codes, out of what `x` says is there.
  [[nodiscard]] kernels::QuantizeArgs code_args(const ProductInput& input) const;
  void link_codes(kernels::QuantizeArgs* args, const ProductInput& input, Access access);
  // A norm that writes the input.
  void link_normed(RmsNormTask* task, const ProductInput& input, Access access);
  // The input of a product, and the strides of both places in it.
  void link_inputs(kernels::MatmulArgs* product,
                   Activations* own,
                   Activations* shared,
                   const ProductInput& input);
  void link_inputs(kernels::MatmulArgs* product, InputPlaces* places, const ProductInput& input);
  // A product of what another one of the task has.
  static void share_input(const kernels::MatmulArgs& other, kernels::MatmulArgs* product);
  void link_input(Activations* to, const ProductInput& input, const SharedInput* shared);
  void link_output(MatmulTask* task, BufferId out);
  [[nodiscard]] ColumnGroups mlp_leaves();
  [[nodiscard]] ColumnGroups mlp_tiles();
  void plan_groups(std::uint32_t threads);
  // With enough tiles for every thread to have two, and at least `fewest`. Fewer rows wait for
  // memory, which is read best from one end of a matrix to the other.
  [[nodiscard]] static std::uint32_t fewest_fused_rows(std::uint32_t fewest,
                                                       std::uint32_t groups,
                                                       std::uint32_t threads);
  [[nodiscard]] ColumnGroups head_groups(std::uint32_t heads);
  void plan_heads(std::uint32_t threads);

  // Scratch of so many columns for each row of a step.
  BufferId floats(std::string name, std::size_t columns);
  BufferId halves(std::string name, std::size_t columns);
  [[nodiscard]] Delta mlp_delta(const LayerOffsets& layer) const;
  BufferId node_memory(std::string name, std::uint32_t nodes);
  [[nodiscard]] std::uint32_t nodes_of(std::uint32_t leaves, Run run) const;

  const ForwardShape& shape_;
  const ForwardInputs& inputs_;
  const checkpoint::ModelConfig& config_;
  const Shard& shard_;
  ProgramRecorder recorder_;
  ForwardBuffers resident_;
  std::string prefix_;                // "L3." in names of tasks
  checkpoint::LayerFormats formats_;  // of the layer that is recorded
  bool is_last_layer_ = false;
  RowsOf followed_ = RowsOf::kAll;  // by the tasks that are recorded
  std::size_t rows_ = 0;
  std::size_t hidden_ = 0;
  std::size_t q_columns_ = 0;
  std::size_t kv_columns_ = 0;
  std::size_t mlp_columns_ = 0;
  BufferId cos_, sin_, x_, q_, k_, v_, q_bf16_;
  BufferId attention_records_, attention_nodes_, gate_, up_, mlp_nodes_;
  ProductInput normed_;
  ProductInput attended_;  // its rows are q_bf16_ for bf16
  ProductInput active_;
  // Of the MLP: with few rows its leaves, whose gates and ups are in memory; otherwise the columns
  // of a tile that has its own.
  ColumnGroups leaf_groups_;
  ColumnGroups gated_groups_;
  bool gates_are_coded_ = false;  // by the tile that has them
  RowRange few_rows_;
  RowRange many_rows_;
  // The same of heads.
  ColumnGroups query_groups_;
  ColumnGroups kv_groups_;
  RowRange few_heads_;
  RowRange many_heads_;
  // Steps in which every rank does all rows, and those in which ranks exchange them.
  RowRange alone_;
  RowRange exchanged_ = kNoRows;
  ExchangeLayout exchange_;
  std::size_t node_rows_ = 0;  // of memory for nodes of this rank alone
  std::size_t thread_floats_ = 0;
};

}  // namespace phalanx::model
