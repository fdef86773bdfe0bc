// SPDX-License-Identifier: Apache-2.0
// From the norm of a layer to its query heads and the KV cache.
#include <algorithm>

#include "forward_recorder.h"
#include "fused_blocks.h"
#include "fused_tasks.h"

namespace phalanx::model {
namespace {

// Of a tile: enough to read a row of activations for, and little enough to leave most of the cache
// to weights.
constexpr std::uint32_t kHeadColumns = 128;

}  // namespace

ColumnGroups ForwardRecorder::head_groups(std::uint32_t heads) {
  const std::uint32_t together = std::max(kHeadColumns / config_.head_dim, 1U);
  const std::span<Run> runs = recorder_.array<Run>((heads + together - 1) / together);
  for (std::uint32_t i = 0; i < runs.size(); ++i) {
    const std::uint32_t first = i * together;
    runs[i] = {first * config_.head_dim, std::min(together, heads - first) * config_.head_dim};
  }
  return {runs.data(), static_cast<std::uint32_t>(runs.size())};
}

// As plan_groups().
void ForwardRecorder::plan_heads(std::uint32_t threads) {
  query_groups_ = head_groups(shard_.attention.count * config_.heads_per_group());
  kv_groups_ = head_groups(shard_.attention.count);
  many_heads_.least =
      fewest_fused_rows(kFusedRows, query_groups_.count + kv_groups_.count, threads);
  few_heads_.most = many_heads_.least - 1;
  thread_floats_ =
      std::max({thread_floats_, query_floats(query_groups_), key_value_floats(kv_groups_)});
}

HeadWeights ForwardRecorder::head_weights(const LayerOffsets& offsets) const {
  const std::size_t kv = std::size_t{shard_.attention.first} * config_.head_dim;
  const std::size_t first_query = kv * config_.heads_per_group();
  const bool bias = config_.qkv_bias;
  return {{formats_.q, offsets.q, where(bias, offsets.q_bias), first_query, q_columns_},
          {formats_.k, offsets.k, where(bias, offsets.k_bias), kv, kv_columns_},
          {formats_.v, offsets.v, where(bias, offsets.v_bias), kv, kv_columns_},
          where(config_.qk_norm, offsets.q_gain),
          where(config_.qk_norm, offsets.k_gain)};
}

kernels::HeadNormRopeArgs ForwardRecorder::head_norm_args(std::size_t columns) const {
  kernels::HeadNormRopeArgs args;
  args.x_stride = columns;
  args.epsilon = config_.rms_norm_eps;
  args.rope_stride = config_.head_dim / 2;
  args.out_stride = columns;
  args.heads = static_cast<std::uint32_t>(columns / config_.head_dim);
  args.head_dim = config_.head_dim;
  return args;
}

void ForwardRecorder::link_head_norm(kernels::HeadNormRopeArgs* args, VectorOffset gain) {
  recorder_.link(cos_, Access::kIn, &args->cos);
  recorder_.link(sin_, Access::kIn, &args->sin);
  link_vector(gain, &args->gain);
}

kernels::KvAppendArgs ForwardRecorder::append_args() const {
  kernels::KvAppendArgs args;
  args.key_stride = kv_columns_;
  args.value_stride = kv_columns_;
  args.slots = inputs_.kv_slots;
  args.kv = shape_.kv.view();
  args.kv_heads = shard_.attention.count;
  args.head_dim = config_.head_dim;
  args.non_finite = inputs_.non_finite;
  return args;
}

// Behind the keys and values of the last layer only rows that sample are of use.
void ForwardRecorder::project_heads(const LayerOffsets& offsets, std::size_t kv_offset) {
  const HeadWeights weights = head_weights(offsets);
  if (is_last_layer_) {
    keys_in_tiles(weights, kv_offset);
    columns("k", k_, weights.k, few_heads_);
    columns("v", v_, weights.v, few_heads_);
    link_keys(heads_in_memory("kv append"), weights, kv_offset);
    narrow(offsets.attention_gain);
    queries_in_tiles(weights);
    columns("q", q_, weights.q, few_heads_);
    queries_in_memory(weights);
    return;
  }
  queries_in_tiles(weights);
  keys_in_tiles(weights, kv_offset);
  columns("q", q_, weights.q, few_heads_);
  columns("k", k_, weights.k, few_heads_);
  columns("v", v_, weights.v, few_heads_);
  HeadsTask* heads = heads_in_memory("q norm rope, kv append");
  heads->query = head_norm_args(q_columns_);
  link_queries(&heads->query, weights);
  link_keys(heads, weights, kv_offset);
}

void ForwardRecorder::queries_in_tiles(const HeadWeights& weights) {
  QueryProductTask query;
  query.heads = head_norm_args(q_columns_);
  query.groups = query_groups_;
  query.range = many_heads_;
  query.rows = followed_;
  auto* q = recorder_.task(Callable::kQueryProduct, prefix_ + "q norm rope in tiles", query);
  link_columns(&q->product, weights.q);
  link_inputs(&q->product, &q->input, normed_);
  link_head_norm(&q->heads, weights.q_gain);
  recorder_.link(q_bf16_, Access::kOut, &q->heads.out);
}

void ForwardRecorder::keys_in_tiles(const HeadWeights& weights, std::size_t kv_offset) {
  KeyValueProductTask key_value;
  key_value.heads = head_norm_args(kv_columns_);
  key_value.append = append_args();
  key_value.groups = kv_groups_;
  key_value.range = many_heads_;
  auto* kv = recorder_.task(Callable::kKeyValueProduct, prefix_ + "kv append in tiles", key_value);
  link_columns(&kv->key, weights.k);
  link_columns(&kv->value, weights.v);
  link_inputs(&kv->key, &kv->input, normed_);
  share_input(kv->key, &kv->value);
  link_head_norm(&kv->heads, weights.k_gain);
  recorder_.link(resident_.kv, Access::kInOut, &kv->append.kv.data, kv_offset);
}

void ForwardRecorder::queries_in_memory(const HeadWeights& weights) {
  HeadNormRopeTask query{head_norm_args(q_columns_), few_heads_, followed_};
  auto* q = recorder_.task(Callable::kHeadNormRope, prefix_ + "q norm rope", query);
  link_queries(&q->kernel, weights);
}

HeadsTask* ForwardRecorder::heads_in_memory(const std::string& name) {
  HeadsTask heads;
  heads.key = head_norm_args(kv_columns_);
  heads.append = append_args();
  heads.threads = shape_.threads;
  heads.range = few_heads_;
  return recorder_.task(Callable::kHeads, prefix_ + name, heads);
}

void ForwardRecorder::link_queries(kernels::HeadNormRopeArgs* query, const HeadWeights& weights) {
  recorder_.link(q_, Access::kIn, &query->x);
  link_head_norm(query, weights.q_gain);
  recorder_.link(q_bf16_, Access::kInOut, &query->out);
}

void ForwardRecorder::link_keys(HeadsTask* heads,
                                const HeadWeights& weights,
                                std::size_t kv_offset) {
  recorder_.link(k_, Access::kIn, &heads->key.x);
  link_head_norm(&heads->key, weights.k_gain);
  recorder_.link(v_, Access::kIn, &heads->append.values);
  recorder_.link(resident_.kv, Access::kInOut, &heads->append.kv.data, kv_offset);
}

}  // namespace phalanx::model
