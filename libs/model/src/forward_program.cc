// SPDX-License-Identifier: Apache-2.0
#include "forward_program.h"

#include <algorithm>
#include <string>
#include <utility>

#include "phalanx/kernels/matmul.h"
#include "phalanx/tensor/shape.h"

#include "sampling_program.h"
#include "task_args.h"

namespace phalanx::model {
namespace {

using kernels::Bf16;
using kernels::MatmulLeaf;
using kernels::packed_elements;

// Bytes before column `first` of a packed matrix; `first` is a multiple of a strip.
std::size_t packed_offset(std::size_t first, std::size_t k) {
  return packed_elements(first, k) * sizeof(Bf16);
}

// The part of a column-parallel weight that a rank multiplies by.
struct ColumnWeight {
  std::size_t offset = 0;  // in the arena
  std::uint32_t columns = 0;
  std::uint32_t k = 0;
};

class ForwardRecorder {
 public:
  ForwardRecorder(const ForwardShape& shape, const ForwardInputs& inputs);

  Result<ForwardProgram> record() &&;

 private:
  void embed();
  void layer(std::uint32_t index);
  void attention(const LayerOffsets& offsets, std::uint32_t index);
  void project_heads(const LayerOffsets& offsets);
  void mlp(const LayerOffsets& offsets);
  void head();
  void norm(std::string name, std::size_t gain, BufferId delta);
  void head_norm(
      std::string name, BufferId from, BufferId to, std::size_t gain, std::uint32_t heads);
  void columns(
      std::string name, BufferId in, std::size_t in_stride, BufferId out, ColumnWeight weight);
  MatmulTask* leaf_task(std::string name, BufferId in, std::size_t in_stride, BufferId nodes);
  void leaf(MatmulTask* task,
            std::span<MatmulLeaf> leaves,
            std::uint32_t index,
            std::size_t weight);
  void reduce(std::string name, BufferId nodes, const collective::TreePlan* plan);

  [[nodiscard]] std::uint32_t nodes_of(std::uint32_t leaves, Run run) const;

  const ForwardShape& shape_;
  const ForwardInputs& inputs_;
  const ModelConfig& config_;
  const Shard& shard_;
  ProgramRecorder recorder_;
  ForwardBuffers resident_;
  std::string prefix_;  // "L3." in names of tasks
  std::size_t rows_ = 0;
  std::size_t hidden_ = 0;
  std::size_t q_columns_ = 0;
  std::size_t kv_columns_ = 0;
  std::size_t mlp_columns_ = 0;
  BufferId cos_, sin_, x_, normed_, q_, k_, v_, q_bf16_, k_bf16_;
  BufferId attention_nodes_, gate_, up_, active_, mlp_nodes_;
};

ForwardRecorder::ForwardRecorder(const ForwardShape& shape, const ForwardInputs& inputs)
    : shape_(shape), inputs_(inputs), config_(shape.config), shard_(shape.shard) {
  const Units units = units_of(config_);
  rows_ = shape.limits.max_num_batched_tokens;
  hidden_ = config_.hidden;
  q_columns_ = std::size_t{shard_.attention.count} * config_.heads_per_group() * config_.head_dim;
  kv_columns_ = std::size_t{shard_.attention.count} * config_.head_dim;
  mlp_columns_ = std::size_t{shard_.mlp_blocks.count} * kMlpBlock;
  resident_.weights = recorder_.resident("weights", shape.arena.bytes);
  resident_.kv = recorder_.resident("kv", shape.kv.bytes());
  resident_.sequence_table = recorder_.resident(
      "sequence table",
      SequenceTable::bytes_for(
          {shape.limits.max_num_seqs, shape.limits.max_model_len, config_.vocab}));
  resident_.results =
      recorder_.resident("results", shape.limits.max_num_seqs * sizeof(SampledToken));
  const auto floats = [&](std::string name, std::size_t columns) {
    return recorder_.scratch(std::move(name), rows_ * columns * sizeof(float));
  };
  const auto halves = [&](std::string name, std::size_t columns) {
    return recorder_.scratch(std::move(name), rows_ * columns * sizeof(Bf16));
  };
  cos_ = floats("cos", config_.head_dim / 2);
  sin_ = floats("sin", config_.head_dim / 2);
  x_ = floats("x", hidden_);
  normed_ = halves("normed", hidden_);
  q_ = floats("q", q_columns_);
  k_ = floats("k", kv_columns_);
  v_ = floats("v", kv_columns_);
  q_bf16_ = halves("q bf16", q_columns_);
  k_bf16_ = halves("k bf16", kv_columns_);
  attention_nodes_ =
      floats("attention nodes", hidden_ * nodes_of(units.attention, shard_.attention));
  gate_ = floats("gate", mlp_columns_);
  up_ = floats("up", mlp_columns_);
  active_ = halves("active", mlp_columns_);
  mlp_nodes_ = floats("mlp nodes", hidden_ * nodes_of(units.mlp, shard_.mlp));
}

std::uint32_t ForwardRecorder::nodes_of(std::uint32_t leaves, Run run) const {
  return static_cast<std::uint32_t>(
      collective::covering_nodes(leaves, {run.first, run.count}).size());
}

void ForwardRecorder::embed() {
  auto* task = recorder_.task(Callable::kEmbedding, "embedding", [&] {
    kernels::EmbeddingArgs args;
    args.hidden = config_.hidden;
    args.tokens = inputs_.tokens;
    args.x_stride = hidden_;
    return args;
  }());
  recorder_.link(resident_.weights, Access::kIn, &task->packed, shape_.arena.embedding);
  recorder_.link(x_, Access::kOut, &task->x);
  auto* rope = recorder_.task(Callable::kRopeRows, "rope rows", [&] {
    kernels::RopeRowsArgs args;
    args.frequencies = inputs_.frequencies;
    args.positions = inputs_.positions;
    args.rope_stride = config_.head_dim / 2;
    return args;
  }());
  recorder_.link(cos_, Access::kOut, &rope->cos);
  recorder_.link(sin_, Access::kOut, &rope->sin);
}

// x += delta, normed = norm(x). The sums of the units are added here, to keep one pass over x.
void ForwardRecorder::norm(std::string name, std::size_t gain, BufferId delta) {
  RmsNormTask args;
  args.kernel.x_stride = hidden_;
  args.kernel.delta_stride = hidden_;
  args.kernel.epsilon = config_.rms_norm_eps;
  args.kernel.out_stride = hidden_;
  args.kernel.hidden = config_.hidden;
  auto* task = recorder_.task(Callable::kRmsNorm, prefix_ + name, args);
  recorder_.link(x_, Access::kInOut, &task->kernel.x);
  if (delta != x_) {
    recorder_.link(delta, Access::kIn, &task->kernel.delta);
  }
  recorder_.link(resident_.weights, Access::kIn, &task->kernel.gain, gain);
  recorder_.link(normed_, Access::kOut, &task->kernel.out);
}

void ForwardRecorder::columns(
    std::string name, BufferId in, std::size_t in_stride, BufferId out, ColumnWeight weight) {
  MatmulTask args;
  args.kernel.activation_stride = in_stride;
  args.kernel.leaf_count = 1;
  args.kernel.columns = weight.columns;
  args.kernel.out_stride = weight.columns;
  const std::span<MatmulLeaf> leaves = recorder_.array<MatmulLeaf>(1);
  leaves[0].k_count = weight.k;
  args.kernel.leaves = leaves.data();
  auto* task = recorder_.task(Callable::kMatmul, prefix_ + name, args);
  recorder_.link(in, Access::kIn, &task->kernel.activations);
  recorder_.link(resident_.weights, Access::kIn, &leaves[0].weight, weight.offset);
  recorder_.link(out, Access::kOut, &task->kernel.out);
}

MatmulTask* ForwardRecorder::leaf_task(std::string name,
                                       BufferId in,
                                       std::size_t in_stride,
                                       BufferId nodes) {
  MatmulTask args;
  args.kernel.activation_stride = in_stride;
  args.kernel.columns = config_.hidden;
  args.kernel.out_stride = hidden_;
  args.kernel.node_stride = rows_ * hidden_;
  auto* task = recorder_.task(Callable::kMatmul, prefix_ + name, args);
  recorder_.link(in, Access::kIn, &task->kernel.activations);
  recorder_.link(nodes, Access::kOut, &task->kernel.out);
  return task;
}

void ForwardRecorder::reduce(std::string name, BufferId nodes, const collective::TreePlan* plan) {
  ReduceTreeTask args;
  args.plan = plan;
  args.node_stride = rows_ * hidden_;
  args.node_count = static_cast<std::uint32_t>(plan->nodes_of(shard_.rank).size());
  args.row_floats = config_.hidden;
  auto* task = recorder_.task(Callable::kReduceTree, prefix_ + name, args);
  recorder_.link(nodes, Access::kInOut, &task->nodes);
}

void ForwardRecorder::head_norm(
    std::string name, BufferId from, BufferId to, std::size_t gain, std::uint32_t heads) {
  kernels::HeadNormRopeArgs args;
  args.x_stride = std::size_t{heads} * config_.head_dim;
  args.epsilon = config_.rms_norm_eps;
  args.rope_stride = config_.head_dim / 2;
  args.out_stride = args.x_stride;
  args.heads = heads;
  args.head_dim = config_.head_dim;
  auto* task = recorder_.task(Callable::kHeadNormRope, prefix_ + name, args);
  recorder_.link(from, Access::kIn, &task->x);
  recorder_.link(cos_, Access::kIn, &task->cos);
  recorder_.link(sin_, Access::kIn, &task->sin);
  recorder_.link(resident_.weights, Access::kIn, &task->gain, gain);
  recorder_.link(to, Access::kOut, &task->out);
}

void ForwardRecorder::project_heads(const LayerOffsets& offsets) {
  const std::uint32_t group = config_.heads_per_group();
  const std::size_t first_kv = std::size_t{shard_.attention.first} * config_.head_dim;
  const auto q_columns = static_cast<std::uint32_t>(q_columns_);
  const auto kv_columns = static_cast<std::uint32_t>(kv_columns_);
  const std::size_t q = offsets.q + packed_offset(first_kv * group, hidden_);
  const std::size_t kv = packed_offset(first_kv, hidden_);
  columns("q", normed_, hidden_, q_, {q, q_columns, config_.hidden});
  columns("k", normed_, hidden_, k_, {offsets.k + kv, kv_columns, config_.hidden});
  columns("v", normed_, hidden_, v_, {offsets.v + kv, kv_columns, config_.hidden});
  head_norm("q norm rope", q_, q_bf16_, offsets.q_gain, shard_.attention.count * group);
  head_norm("k norm rope", k_, k_bf16_, offsets.k_gain, shard_.attention.count);
}

void ForwardRecorder::attention(const LayerOffsets& offsets, std::uint32_t index) {
  project_heads(offsets);
  const kernels::KvView kv{nullptr, shape_.kv.block_stride, shape_.kv.head_stride};
  const std::size_t kv_offset = shape_.kv.layer_offset_bytes(index);
  kernels::KvAppendArgs append;
  append.key_stride = kv_columns_;
  append.value_stride = kv_columns_;
  append.slots = inputs_.kv_slots;
  append.kv = kv;
  append.kv_heads = shard_.attention.count;
  append.head_dim = config_.head_dim;
  append.non_finite = inputs_.non_finite;
  auto* append_task = recorder_.task(Callable::kKvAppend, prefix_ + "kv append", append);
  recorder_.link(k_bf16_, Access::kIn, &append_task->keys);
  recorder_.link(v_, Access::kIn, &append_task->values);
  recorder_.link(resident_.kv, Access::kInOut, &append_task->kv.data, kv_offset);

  AttentionTask attend;
  attend.kernel.q_stride = q_columns_;
  attend.kernel.out_stride = q_columns_;
  attend.kernel.kv = kv;
  attend.kernel.kv_heads = shard_.attention.count;
  attend.kernel.group = config_.heads_per_group();
  attend.kernel.head_dim = config_.head_dim;
  attend.kernel.scale = kernels::attention_scale(config_.head_dim);
  attend.kernel.sequences = inputs_.sequences;
  auto* task = recorder_.task(Callable::kAttention, prefix_ + "attention", attend);
  recorder_.link(q_bf16_, Access::kInOut, &task->kernel.q);
  recorder_.link(q_bf16_, Access::kInOut, &task->kernel.out);
  recorder_.link(resident_.kv, Access::kIn, &task->kernel.kv.data, kv_offset);

  const std::uint32_t leaf_k = config_.heads_per_group() * config_.head_dim;
  const std::size_t leaf_bytes = packed_offset(hidden_, leaf_k);
  MatmulTask* output = leaf_task("o", q_bf16_, q_columns_, attention_nodes_);
  const std::span<MatmulLeaf> leaves = recorder_.array<MatmulLeaf>(shard_.attention.count);
  for (std::uint32_t i = 0; i < leaves.size(); ++i) {
    leaves[i].first_k = i * leaf_k;
    leaves[i].k_count = leaf_k;
    leaf(output, leaves, i, offsets.o + (shard_.attention.first + i) * leaf_bytes);
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
  recorder_.link(resident_.weights, Access::kIn, &leaves[index].weight, weight);
}

void ForwardRecorder::mlp(const LayerOffsets& offsets) {
  const std::size_t first = std::size_t{shard_.mlp_blocks.first} * kMlpBlock;
  const auto width = static_cast<std::uint32_t>(mlp_columns_);
  const std::size_t part = packed_offset(first, hidden_);
  columns("gate", normed_, hidden_, gate_, {offsets.gate + part, width, config_.hidden});
  columns("up", normed_, hidden_, up_, {offsets.up + part, width, config_.hidden});
  kernels::SwigluArgs args;
  args.gate_stride = mlp_columns_;
  args.up_stride = mlp_columns_;
  args.out_stride = mlp_columns_;
  args.columns = width;
  auto* task = recorder_.task(Callable::kSwiglu, prefix_ + "swiglu", args);
  recorder_.link(gate_, Access::kIn, &task->gate);
  recorder_.link(up_, Access::kIn, &task->up);
  recorder_.link(active_, Access::kOut, &task->out);

  const Units units = units_of(config_);
  const std::size_t block_bytes = packed_offset(hidden_, kMlpBlock);
  MatmulTask* down = leaf_task("down", active_, mlp_columns_, mlp_nodes_);
  const std::span<MatmulLeaf> leaves = recorder_.array<MatmulLeaf>(shard_.mlp.count);
  for (std::uint32_t i = 0; i < leaves.size(); ++i) {
    const Run blocks = units.mlp_blocks_of(shard_.mlp.first + i);
    leaves[i].first_k = (blocks.first - shard_.mlp_blocks.first) * kMlpBlock;
    leaves[i].k_count = blocks.count * kMlpBlock;
    leaf(down, leaves, i, offsets.down + blocks.first * block_bytes);
  }
  kernels::plan_leaves(units.mlp, shard_.mlp.first, leaves);
  reduce("mlp sum", mlp_nodes_, inputs_.mlp_tree);
}

void ForwardRecorder::layer(std::uint32_t index) {
  const LayerOffsets& offsets = shape_.arena.layers[index];
  prefix_ = "L" + std::to_string(index) + ".";
  norm("attention norm", offsets.attention_gain, index == 0 ? x_ : mlp_nodes_);
  attention(offsets, index);
  norm("mlp norm", offsets.mlp_gain, attention_nodes_);
  mlp(offsets);
  prefix_.clear();
}

// Only rows that sample go through the last norm and the head.
void ForwardRecorder::head() {
  const std::size_t seqs = shape_.limits.max_num_seqs;
  const std::size_t row_bytes = hidden_ * sizeof(float);
  const BufferId x = recorder_.scratch("sampled x", seqs * row_bytes);
  const BufferId delta = recorder_.scratch("sampled delta", seqs * row_bytes);
  const BufferId normed = recorder_.scratch("sampled normed", seqs * hidden_ * sizeof(Bf16));
  const std::size_t stride = logits_stride(shard_);
  const BufferId logits = recorder_.scratch("logits", seqs * stride * sizeof(float));

  GatherRowsTask gather;
  gather.source_rows = inputs_.sample_rows;
  gather.hidden = config_.hidden;
  auto* rows = recorder_.task(Callable::kGatherRows, "gather rows", gather);
  recorder_.link(x_, Access::kIn, &rows->x);
  recorder_.link(mlp_nodes_, Access::kIn, &rows->delta);
  recorder_.link(x, Access::kOut, &rows->x_out);
  recorder_.link(delta, Access::kOut, &rows->delta_out);

  RmsNormTask norm;
  norm.rows = RowsOf::kSampled;
  norm.kernel.x_stride = hidden_;
  norm.kernel.delta_stride = hidden_;
  norm.kernel.epsilon = config_.rms_norm_eps;
  norm.kernel.out_stride = hidden_;
  norm.kernel.hidden = config_.hidden;
  auto* final_norm = recorder_.task(Callable::kRmsNorm, "final norm", norm);
  recorder_.link(x, Access::kInOut, &final_norm->kernel.x);
  recorder_.link(delta, Access::kIn, &final_norm->kernel.delta);
  recorder_.link(resident_.weights, Access::kIn, &final_norm->kernel.gain, shape_.arena.final_gain);
  recorder_.link(normed, Access::kOut, &final_norm->kernel.out);

  MatmulTask product;
  product.rows = RowsOf::kSampled;
  product.kernel.activation_stride = hidden_;
  product.kernel.leaf_count = 1;
  product.kernel.columns = shard_.tokens.count;
  product.kernel.out_stride = stride;
  const std::span<MatmulLeaf> leaves = recorder_.array<MatmulLeaf>(1);
  leaves[0].k_count = config_.hidden;
  product.kernel.leaves = leaves.data();
  auto* task = recorder_.task(Callable::kMatmul, "lm head", product);
  recorder_.link(normed, Access::kIn, &task->kernel.activations);
  recorder_.link(resident_.weights,
                 Access::kIn,
                 &leaves[0].weight,
                 shape_.arena.head + packed_offset(shard_.tokens.first, hidden_));
  recorder_.link(logits, Access::kOut, &task->kernel.out);
  record_sampling({seqs, stride, shard_.ranks}, resident_, logits, inputs_.sampler, recorder_);
}

Result<ForwardProgram> ForwardRecorder::record() && {
  embed();
  for (std::uint32_t index = 0; index < config_.layers; ++index) {
    layer(index);
  }
  head();
  PHALANX_TRY(Program program, std::move(recorder_).finish());
  return ForwardProgram{std::move(program), resident_};
}

}  // namespace

std::size_t logits_stride(const Shard& shard) {
  return tensor::aligned_stride<float>(shard.tokens.count);
}

Result<ForwardProgram> record_forward(const ForwardShape& shape, const ForwardInputs& inputs) {
  return ForwardRecorder(shape, inputs).record();
}

}  // namespace phalanx::model
