// SPDX-License-Identifier: Apache-2.0
// The tasks of one layer.
#include <utility>

#include "forward_recorder.h"
#include "fused_tasks.h"
#include "leaf_places.h"

namespace phalanx::model {

using kernels::MatmulLeaf;

namespace {

// From leaf to leaf of an input: codes of each begin at a multiple of a block.
std::uint32_t first_k_of(const ProductInput& input, std::uint32_t leaf_k) {
  return input.is_quantized() ? static_cast<std::uint32_t>(kernels::padded_k(leaf_k)) : leaf_k;
}

}  // namespace

// x += delta, input = norm(x). The sums of the units are added here, to keep one pass over x.
void ForwardRecorder::norm(const std::string& name,
                           const ProductInput& input,
                           std::size_t gain,
                           const std::optional<Delta>& delta,
                           Access access) {
  RmsNormTask args = norm_args();
  args.range = alone_;
  auto* task = recorder_.task(Callable::kRmsNorm, prefix_ + name, args);
  recorder_.link(x_, Access::kInOut, &task->kernel.x);
  if (delta) {
    recorder_.link(delta->values, Access::kIn, &task->kernel.delta);
    link_vector(delta->bias, &task->kernel.delta_bias);
  }
  recorder_.link(resident_.weights, Access::kIn, &task->kernel.gain, gain);
  link_normed(task, input, access);
  if (exchanges()) {
    exchange_norm(name + " of own rows", input, gain, delta);
  }
}

void ForwardRecorder::link_vector(VectorOffset offset, const float** field) {
  if (offset) {
    recorder_.link(resident_.weights, Access::kIn, field, *offset);
  }
}

void ForwardRecorder::link_columns(kernels::MatmulArgs* product, const ColumnWeight& weight) {
  product->leaf_count = 1;
  product->columns = static_cast<std::uint32_t>(weight.columns);
  const std::span<MatmulLeaf> leaves = recorder_.array<MatmulLeaf>(1);
  leaves[0].weight = arena_weight(weight.format, hidden_, weight.columns);
  product->leaves = leaves.data();
  recorder_.link(resident_.weights,
                 Access::kIn,
                 &leaves[0].weight.data,
                 weight.matrix + packed_bytes(weight.format, weight.first, hidden_));
  link_vector(
      where(weight.bias.has_value(), weight.bias.value_or(0) + weight.first * sizeof(float)),
      &product->bias);
}

// out = normed · the columns of the weight.
void ForwardRecorder::columns(const std::string& name,
                              BufferId out,
                              const ColumnWeight& weight,
                              RowRange range) {
  MatmulTask args;
  args.kernel.out_stride = weight.columns;
  args.rows = followed_;
  args.range = range;
  args.exchanged = exchanged_;
  auto* task = recorder_.task(Callable::kMatmul, prefix_ + name, args);
  link_columns(&task->kernel, weight);
  link_inputs(&task->kernel, &task->own.in, &task->shared.in, normed_);
  link_output(task, out);
}

MatmulTask* ForwardRecorder::leaf_task(const std::string& name,
                                       const ProductInput& in,
                                       BufferId nodes,
                                       const collective::TreePlan* plan) {
  MatmulTask args;
  args.rows = followed_;
  args.exchanged = exchanged_;
  args.kernel.columns = config_.hidden;
  args.kernel.out_stride = hidden_;
  args.own.node_stride = node_rows_ * hidden_;
  args.shared.node_stride = rows_ * hidden_;
  auto* task = recorder_.task(Callable::kMatmul, prefix_ + name, args);
  link_inputs(&task->kernel, &task->own.in, &task->shared.in, in);
  recorder_.link(nodes, Access::kOut, &task->own.out);
  if (exchanges()) {
    const std::size_t first = plan->first_node(shard_.rank) * args.shared.node_stride;
    recorder_.link(*resident_.exchange,
                   Access::kOutExisting,
                   &task->shared.out,
                   exchange_.nodes + first * sizeof(float));
  }
  return task;
}

void ForwardRecorder::reduce(const std::string& name,
                             BufferId nodes,
                             const collective::TreePlan* plan) {
  ReduceTreeTask args;
  args.plan = plan;
  args.rows = followed_;
  args.range = alone_;
  args.node_stride = node_rows_ * hidden_;
  args.node_count = static_cast<std::uint32_t>(plan->nodes_of(shard_.rank).size());
  args.row_floats = config_.hidden;
  auto* task = recorder_.task(Callable::kReduceTree, prefix_ + name, args);
  recorder_.link(nodes, Access::kInOut, &task->nodes);
}

void ForwardRecorder::attention(const LayerOffsets& offsets, std::uint32_t index) {
  const std::size_t kv_offset = shape_.kv.layer_offset(index);
  project_heads(offsets, kv_offset);
  AttentionTask attend;
  attend.kernel.q_stride = q_columns_;
  attend.kernel.out_stride = q_columns_;
  attend.kernel.kv = shape_.kv.view();
  attend.kernel.kv_heads = shard_.attention.count;
  attend.kernel.group = config_.heads_per_group();
  attend.kernel.head_dim = config_.head_dim;
  attend.kernel.scale = kernels::attention_scale(config_.head_dim);
  attend.kernel.sequences = is_last_layer_ ? inputs_.sampled : inputs_.sequences;
  attend.rows = followed_;
  attend.next_layer = is_last_layer_ ? 0 : shape_.kv.layer_stride;
  attend.kernel.records.floats = kernels::attention_record_floats(config_.head_dim);
  auto* task = recorder_.task(Callable::kAttention, prefix_ + "attention", attend);
  if (attended_.is_quantized()) {
    recorder_.link(q_bf16_, Access::kIn, &task->kernel.q);
  } else {
    recorder_.link(q_bf16_, Access::kInOut, &task->kernel.q);
  }
  link_attended(task, attended_.is_quantized() ? Access::kOut : Access::kInOut);
  recorder_.link(attention_records_, Access::kOut, &task->kernel.records.data);
  recorder_.link(resident_.kv, Access::kIn, &task->kernel.kv.data, kv_offset);
  auto* fold = recorder_.task(Callable::kAttentionFold, prefix_ + "attention fold", attend);
  link_attended(fold, Access::kInOut);
  recorder_.link(attention_records_, Access::kIn, &fold->kernel.records.data);
  attention_output(offsets);
}

// What is attended to, and its codes.
void ForwardRecorder::link_attended(AttentionTask* task, Access access) {
  link_output(&task->kernel, attended_, access);
  if (attended_.is_quantized()) {
    task->codes = code_args(attended_);
    link_codes(&task->codes, attended_, access);
  }
}

void ForwardRecorder::attention_output(const LayerOffsets& offsets) {
  const std::uint32_t leaf_k = config_.heads_per_group() * config_.head_dim;
  MatmulTask* output = leaf_task("o", attended_, attention_nodes_, inputs_.attention_tree);
  const std::span<MatmulLeaf> leaves = recorder_.array<MatmulLeaf>(shard_.attention.count);
  for (std::uint32_t i = 0; i < leaves.size(); ++i) {
    leaves[i].first_k = i * first_k_of(attended_, leaf_k);
    const LeafPlace at =
        o_leaf(config_, formats_.o, shape_.arena.ranks, shard_.attention.first + i);
    leaves[i].weight = arena_weight(formats_.o, leaf_k, hidden_, at.group_stride);
    leaf(output, leaves, i, offsets.o + at.offset);
  }
  kernels::plan_leaves(units_of(config_).attention, shard_.attention.first, leaves);
  reduce("attention sum", attention_nodes_, inputs_.attention_tree);
}

void ForwardRecorder::leaf(MatmulTask* task,
                           std::span<MatmulLeaf> leaves,
                           std::uint32_t index,
                           std::size_t weight) {
  task->kernel.leaves = leaves.data();
  task->kernel.leaf_count = static_cast<std::uint32_t>(leaves.size());
  recorder_.link(resident_.weights, Access::kIn, &leaves[index].weight.data, weight);
}

void ForwardRecorder::mlp(const LayerOffsets& offsets) {
  const std::size_t first = std::size_t{shard_.mlp_blocks.first} * kMlpBlock;
  const bool bias = config_.mlp_bias;
  const auto weight = [&](kernels::WeightFormat format, std::size_t matrix, std::size_t bias_at) {
    return ColumnWeight{format, matrix, where(bias, bias_at), first, mlp_columns_};
  };
  const ColumnWeight gate = weight(formats_.gate, offsets.gate, offsets.gate_bias);
  const ColumnWeight up = weight(formats_.up, offsets.up, offsets.up_bias);
  gated_product(gate, up);
  gates_in_memory(gate, up);
  mlp_output(offsets);
}

// With many rows.
void ForwardRecorder::gated_product(const ColumnWeight& gate, const ColumnWeight& up) {
  GatedProductTask args;
  args.swiglu.out_stride = mlp_columns_;
  args.groups = gated_groups_;
  args.range = many_rows_;
  args.rows = followed_;
  auto* task = recorder_.task(Callable::kGatedProduct, prefix_ + "gate up swiglu", args);
  link_columns(&task->gate, gate);
  link_columns(&task->up, up);
  link_inputs(&task->gate, &task->input, normed_);
  share_input(task->gate, &task->up);
  if (gates_are_coded_) {
    task->codes = code_args(active_);
    link_codes(&task->codes, active_, Access::kOut);
    return;
  }
  link_output(&task->swiglu, active_);
  if (active_.is_quantized()) {
    QuantizeTask codes{code_args(active_), many_rows_, followed_};
    auto* quantize = recorder_.task(Callable::kQuantize, prefix_ + "swiglu codes", codes);
    recorder_.link(active_.rows, Access::kIn, &quantize->kernel.x);
    link_codes(&quantize->kernel, active_, Access::kOut);
  }
}

// With few rows: each weight is read from its beginning to its end, and by all threads. What it
// writes is where gated_product() would have written it.
void ForwardRecorder::gates_in_memory(const ColumnWeight& gate, const ColumnWeight& up) {
  columns("gate", gate_, gate, few_rows_);
  columns("up", up_, up, few_rows_);
  SwigluTask args;
  args.kernel.gate_stride = mlp_columns_;
  args.kernel.up_stride = mlp_columns_;
  args.kernel.out_stride = mlp_columns_;
  args.codes = code_args(active_);
  args.groups = leaf_groups_;
  args.range = few_rows_;
  args.rows = followed_;
  auto* task = recorder_.task(Callable::kSwiglu, prefix_ + "swiglu", args);
  recorder_.link(gate_, Access::kIn, &task->kernel.gate);
  recorder_.link(up_, Access::kIn, &task->kernel.up);
  if (active_.is_quantized()) {
    link_codes(&task->codes, active_, Access::kInOut);
  } else {
    recorder_.link(active_.rows, Access::kInOut, &task->kernel.out);
  }
}

void ForwardRecorder::mlp_output(const LayerOffsets& offsets) {
  const Units units = units_of(config_);
  MatmulTask* down = leaf_task("down", active_, mlp_nodes_, inputs_.mlp_tree);
  const std::span<MatmulLeaf> leaves = recorder_.array<MatmulLeaf>(shard_.mlp.count);
  for (std::uint32_t i = 0; i < leaves.size(); ++i) {
    const Run blocks = units.mlp_blocks_of(shard_.mlp.first + i);
    leaves[i].first_k = (blocks.first - shard_.mlp_blocks.first) * kMlpBlock;
    const LeafPlace at =
        down_leaf(config_, formats_.down, shape_.arena.ranks, shard_.mlp.first + i);
    leaves[i].weight = arena_weight(
        formats_.down, std::size_t{blocks.count} * kMlpBlock, hidden_, at.group_stride);
    leaf(down, leaves, i, offsets.down + at.offset);
  }
  kernels::plan_leaves(units.mlp, shard_.mlp.first, leaves);
  reduce("mlp sum", mlp_nodes_, inputs_.mlp_tree);
}

Delta ForwardRecorder::mlp_delta(const LayerOffsets& layer) const {
  return {mlp_nodes_, where(config_.mlp_bias, layer.down_bias), inputs_.mlp_tree};
}

void ForwardRecorder::layer(std::uint32_t index) {
  const LayerOffsets& offsets = shape_.arena.layers[index];
  prefix_ = "L" + std::to_string(index) + ".";
  formats_ = config_.formats.layer(index);
  is_last_layer_ = index + 1 == config_.layers;
  std::optional<Delta> before;
  if (index != 0) {
    before = mlp_delta(shape_.arena.layers[index - 1]);
  }
  norm("attention norm", normed_, offsets.attention_gain, before);
  attention(offsets, index);
  norm("mlp norm",
       normed_,
       offsets.mlp_gain,
       Delta{attention_nodes_, where(config_.output_bias, offsets.o_bias), inputs_.attention_tree});
  mlp(offsets);
  prefix_.clear();
}

}  // namespace phalanx::model
