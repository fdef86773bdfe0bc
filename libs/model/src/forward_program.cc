// SPDX-License-Identifier: Apache-2.0
// What comes before and after the layers.
#include "forward_program.h"

#include <array>
#include <utility>
#include <vector>

#include "phalanx/step/sequence_table.h"
#include "phalanx/tensor/shape.h"

#include "forward_recorder.h"
#include "sampling_program.h"

namespace phalanx::model {
namespace {

// With more sequences at once there is work for every thread without dividing contexts.
constexpr std::size_t kDividedSequences = 8;
constexpr std::size_t kMaxRecordBytes = std::size_t{16} << 20;

}  // namespace

using kernels::Bf16;
using kernels::MatmulLeaf;

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
  resident_.sequence_table =
      recorder_.resident("sequence table", step::SequenceTable::bytes_for(shape.limits));
  resident_.results =
      recorder_.resident("results", shape.limits.max_num_seqs * sizeof(SampledToken));
  node_rows_ = rows_;
  if (shard_.ranks > 1) {
    exchange_ = exchange_layout(config_, shape.limits, shard_.ranks);
    resident_.exchange = recorder_.resident("exchange", exchange_.bytes);
    exchanged_.least = kExchangedRows;
    exchanged_.most = RowRange().most;
    alone_.most = kExchangedRows - 1;
    node_rows_ = std::min<std::size_t>(rows_, alone_.most);
  }
  cos_ = floats("cos", config_.head_dim / 2);
  sin_ = floats("sin", config_.head_dim / 2);
  x_ = floats("x", hidden_);
  normed_ = product_input("normed", layer_format(), rows_, std::array{hidden_});
  normed_.shared = exchanges() ? std::optional(exchange_.normed) : std::nullopt;
  q_ = floats("q", q_columns_);
  k_ = floats("k", kv_columns_);
  v_ = floats("v", kv_columns_);
  attended_ = attention_input();
  q_bf16_ = attended_.is_quantized() ? halves("q bf16", q_columns_) : attended_.rows;
  attention_records_ =
      recorder_.scratch("attention records",
                        attention_records(config_, shard_, shape.limits) *
                            kernels::attention_record_floats(config_.head_dim) * sizeof(float));
  attention_nodes_ = node_memory("attention nodes", nodes_of(units.attention, shard_.attention));
  gate_ = floats("gate", mlp_columns_);
  up_ = floats("up", mlp_columns_);
  active_ = mlp_input();
  mlp_nodes_ = node_memory("mlp nodes", nodes_of(units.mlp, shard_.mlp));
  plan_groups(shape.threads);
  plan_heads(shape.threads);
}

ProductInput ForwardRecorder::attention_input() {
  const std::size_t leaf_k = std::size_t{config_.heads_per_group()} * config_.head_dim;
  const std::vector<std::size_t> leaves(shard_.attention.count, leaf_k);
  ProductInput input = product_input("attended", layer_format(), rows_, leaves);
  if (input.is_quantized()) {
    input.rows = floats("attended", q_columns_);
  }
  return input;
}

ProductInput ForwardRecorder::mlp_input() {
  const Units units = units_of(config_);
  std::vector<std::size_t> leaves;
  for (std::uint32_t run = shard_.mlp.first; run < shard_.mlp.end(); ++run) {
    leaves.push_back(std::size_t{units.mlp_blocks_of(run).count} * kMlpBlock);
  }
  return product_input("active", layer_format(), rows_, leaves);
}

BufferId ForwardRecorder::floats(std::string name, std::size_t columns) {
  return recorder_.scratch(std::move(name), rows_ * columns * sizeof(float));
}

BufferId ForwardRecorder::halves(std::string name, std::size_t columns) {
  return recorder_.scratch(std::move(name), rows_ * columns * sizeof(Bf16));
}

BufferId ForwardRecorder::node_memory(std::string name, std::uint32_t nodes) {
  return recorder_.scratch(std::move(name), nodes * node_rows_ * hidden_ * sizeof(float));
}

std::uint32_t ForwardRecorder::nodes_of(std::uint32_t leaves, Run run) const {
  return static_cast<std::uint32_t>(
      collective::covering_nodes(leaves, {run.first, run.count}).size());
}

void ForwardRecorder::embed() {
  auto* task = recorder_.task(Callable::kEmbedding, "embedding", [&] {
    kernels::EmbeddingArgs args;
    args.table = arena_weight(config_.formats.embedding, hidden_, config_.vocab);
    args.tokens = inputs_.tokens;
    args.x_stride = hidden_;
    return args;
  }());
  recorder_.link(resident_.weights, Access::kIn, &task->table.data, shape_.arena.embedding);
  recorder_.link(x_, Access::kOut, &task->x);
  rope("rope rows", inputs_.positions, Access::kOut);
}

void ForwardRecorder::rope(const std::string& name, const std::uint32_t* positions, Access access) {
  RopeRowsTask args;
  args.kernel.frequencies = inputs_.frequencies;
  args.kernel.positions = positions;
  args.kernel.rope_stride = config_.head_dim / 2;
  args.rows = followed_;
  auto* task = recorder_.task(Callable::kRopeRows, prefix_ + name, args);
  recorder_.link(cos_, access, &task->kernel.cos);
  recorder_.link(sin_, access, &task->kernel.sin);
}

void ForwardRecorder::head() {
  const std::size_t seqs = shape_.limits.max_num_seqs;
  const kernels::WeightFormat format = config_.formats.head;
  ProductInput normed = product_input("sampled normed", format, seqs, std::array{hidden_});
  normed.shared = exchanges() ? std::optional(exchange_.sampled) : std::nullopt;
  norm("final norm", normed, shape_.arena.final_gain, mlp_delta(shape_.arena.layers.back()));

  const std::size_t stride = logits_stride(shard_);
  const BufferId logits = recorder_.scratch("logits", seqs * stride * sizeof(float));
  MatmulTask product;
  product.rows = followed_;
  product.exchanged = exchanged_;
  product.kernel.leaf_count = 1;
  product.kernel.columns = shard_.tokens.count;
  product.kernel.out_stride = stride;
  const std::span<MatmulLeaf> leaves = recorder_.array<MatmulLeaf>(1);
  leaves[0].weight = arena_weight(format, hidden_, shard_.tokens.count);
  product.kernel.leaves = leaves.data();
  auto* task = recorder_.task(Callable::kMatmul, "lm head", product);
  link_inputs(&task->kernel, &task->own.in, &task->shared.in, normed);
  recorder_.link(resident_.weights,
                 Access::kIn,
                 &leaves[0].weight.data,
                 shape_.arena.head + packed_bytes(format, shard_.tokens.first, hidden_));
  link_output(task, logits);
  record_sampling({seqs, stride, shard_.ranks}, resident_, logits, inputs_.sampler, recorder_);
}

Result<ForwardProgram> ForwardRecorder::record() && {
  embed();
  for (std::uint32_t index = 0; index < config_.layers; ++index) {
    layer(index);
  }
  head();
  PHALANX_TRY(Program program, std::move(recorder_).finish());
  return ForwardProgram{std::move(program), resident_, thread_floats_};
}

std::uint32_t attention_records(const checkpoint::ModelConfig& config,
                                const Shard& shard,
                                const step::RankLimits& limits) {
  const std::size_t segments =
      (limits.max_model_len + kernels::kSegmentTokens - 1) / kernels::kSegmentTokens;
  if (segments < 2) {
    return 0;
  }
  const std::size_t wanted = std::min<std::size_t>(kDividedSequences, limits.max_num_seqs) *
                             segments * shard.attention.count * config.heads_per_group();
  const std::size_t bytes = kernels::attention_record_floats(config.head_dim) * sizeof(float);
  return static_cast<std::uint32_t>(std::min(wanted, kMaxRecordBytes / bytes));
}

std::size_t logits_stride(const Shard& shard) {
  return tensor::aligned_stride<float>(shard.tokens.count);
}

Result<ForwardProgram> record_forward(const ForwardShape& shape, const ForwardInputs& inputs) {
  return ForwardRecorder(shape, inputs).record();
}

}  // namespace phalanx::model
