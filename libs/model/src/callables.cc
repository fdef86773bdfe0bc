// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/callables.h"

#include <algorithm>
#include <array>
#include <span>

#include "phalanx/base/check.h"
#include "phalanx/base/hash.h"

#include "fused_tasks.h"
#include "task_args.h"

namespace phalanx::model {
namespace {

template <typename Args>
Args& as(void* args) {
  return *static_cast<Args*>(args);
}
template <typename Args>
const Args& as(const void* args) {
  return *static_cast<const Args*>(args);
}

std::uint64_t refresh_embedding(void* args, const StepShape& shape) {
  auto& task = as<kernels::EmbeddingArgs>(args);
  task.rows = shape.rows;
  return kernels::row_tiles(task.rows);
}
void run_embedding(const void* args, const TaskRuntime&, std::uint32_t tile, std::uint32_t) {
  kernels::embedding(as<kernels::EmbeddingArgs>(args), tile);
}

Status check_embedding(const void* args) {
  return kernels::check_embedding(as<kernels::EmbeddingArgs>(args));
}

std::uint64_t refresh_rope_rows(void* args, const StepShape& shape) {
  auto& task = as<RopeRowsTask>(args);
  task.kernel.rows = rows_of(task.rows, shape);
  return kernels::row_tiles(task.kernel.rows);
}
void run_rope_rows(const void* args, const TaskRuntime&, std::uint32_t tile, std::uint32_t) {
  kernels::rope_rows(as<RopeRowsTask>(args).kernel, tile);
}

std::uint64_t refresh_rms_norm(void* args, const StepShape& shape) {
  auto& task = as<RmsNormTask>(args);
  task.kernel.rows = rows_of(task.rows, shape);
  return task.range.holds(task.kernel.rows) ? kernels::row_tiles(task.kernel.rows) : 0;
}
void run_rms_norm(const void* args,
                  const TaskRuntime& rt,
                  std::uint32_t tile,
                  std::uint32_t thread) {
  run_tile(as<RmsNormTask>(args), rt, tile, thread);
}

std::uint64_t refresh_quantize(void* args, const StepShape& shape) {
  auto& task = as<QuantizeTask>(args);
  task.kernel.rows = rows_of(task.rows, shape);
  return task.range.holds(task.kernel.rows) ? kernels::row_tiles(task.kernel.rows) : 0;
}
void run_quantize(const void* args, const TaskRuntime& rt, std::uint32_t tile, std::uint32_t) {
  rt.kernels->quantize(as<QuantizeTask>(args).kernel, tile);
}

void take(const Activations& input, kernels::MatmulArgs* product) {
  product->activations = input.rows;
  product->quantized = input.codes;
}

std::uint64_t refresh_matmul(void* args, const StepShape& shape) {
  auto& task = as<MatmulTask>(args);
  const std::uint32_t rows = rows_of(task.rows, shape);
  task.kernel.rows = rows;
  const ProductPlace& place = task.exchanged.holds(rows) ? task.shared : task.own;
  take(place.in, &task.kernel);
  task.kernel.out = place.out;
  task.kernel.node_stride = place.node_stride;
  return rows != 0 && task.range.holds(rows) ? kernels::matmul_tiles(task.kernel) : 0;
}
void run_matmul(const void* args, const TaskRuntime& rt, std::uint32_t tile, std::uint32_t thread) {
  kernels::MatmulArgs product = as<MatmulTask>(args).kernel;
  product.ahead = rt.ahead_of(thread);
  rt.kernels->matmul(product, tile);
}

Status check_matmul(const void* args) {
  return kernels::check_matmul(as<MatmulTask>(args).kernel);
}
// A product of which tiles take columns.
Status check_columns(const kernels::MatmulArgs& product) {
  if (product.leaves[0].weight.group_stride != 0) {
    return invalid_argument("a product by columns: expected strips that follow one another");
  }
  return kernels::check_matmul(product);
}

std::uint64_t refresh_head_norm_rope(void* args, const StepShape& shape) {
  auto& task = as<HeadNormRopeTask>(args);
  task.kernel.rows = rows_of(task.rows, shape);
  return task.range.holds(task.kernel.rows) ? tiles_of(task) : 0;
}
void run_head_norm_rope(const void* args,
                        const TaskRuntime& rt,
                        std::uint32_t tile,
                        std::uint32_t) {
  run_tile(as<HeadNormRopeTask>(args), rt, tile);
}

std::uint64_t refresh_heads(void* args, const StepShape& shape) {
  auto& task = as<HeadsTask>(args);
  task.append.rows = shape.rows;
  return task.range.holds(shape.rows) ? tiles_of(task) : 0;
}
void run_heads(const void* args, const TaskRuntime& rt, std::uint32_t tile, std::uint32_t thread) {
  run_tile(as<HeadsTask>(args), rt, tile, thread);
}

std::uint64_t refresh_query_product(void* args, const StepShape& shape) {
  auto& task = as<QueryProductTask>(args);
  const std::uint32_t rows = rows_of(task.rows, shape);
  task.heads.rows = rows;
  take(task.input.of(rows), &task.product);
  return task.range.holds(rows) ? tiles_of(task) : 0;
}
void run_query_product(const void* args,
                       const TaskRuntime& rt,
                       std::uint32_t tile,
                       std::uint32_t thread) {
  run_tile(as<QueryProductTask>(args), rt, tile, thread);
}
Status check_query_product(const void* args) {
  return check_columns(as<QueryProductTask>(args).product);
}

std::uint64_t refresh_key_value_product(void* args, const StepShape& shape) {
  auto& task = as<KeyValueProductTask>(args);
  task.append.rows = shape.rows;
  const Activations& input = task.input.of(shape.rows);
  take(input, &task.key);
  take(input, &task.value);
  return task.range.holds(shape.rows) ? tiles_of(task) : 0;
}
void run_key_value_product(const void* args,
                           const TaskRuntime& rt,
                           std::uint32_t tile,
                           std::uint32_t thread) {
  run_tile(as<KeyValueProductTask>(args), rt, tile, thread);
}
Status check_key_value_product(const void* args) {
  const auto& task = as<KeyValueProductTask>(args);
  PHALANX_RETURN_IF_ERROR(check_columns(task.key));
  return check_columns(task.value);
}

const kernels::AttentionPlan& plan_sequences(AttentionTask* task, const StepShape& shape) {
  const bool sampled = task->rows == RowsOf::kSampled;
  task->kernel.sequence_count = sampled ? shape.sample_rows : shape.sequences;
  return sampled ? shape.sampled_attention : shape.attention;
}

std::uint64_t refresh_attention(void* args, const StepShape& shape) {
  return plan_sequences(&as<AttentionTask>(args), shape).tiles;
}
void run_attention(const void* args,
                   const TaskRuntime& rt,
                   std::uint32_t tile,
                   std::uint32_t thread) {
  run_tile(as<AttentionTask>(args), rt, tile, thread);
}

std::uint64_t refresh_attention_fold(void* args, const StepShape& shape) {
  return plan_sequences(&as<AttentionTask>(args), shape).folds;
}
void run_attention_fold(const void* args,
                        const TaskRuntime& rt,
                        std::uint32_t tile,
                        std::uint32_t) {
  run_fold_tile(as<AttentionTask>(args), rt, tile);
}

std::uint64_t refresh_swiglu(void* args, const StepShape& shape) {
  auto& task = as<SwigluTask>(args);
  task.kernel.rows = rows_of(task.rows, shape);
  return task.range.holds(task.kernel.rows) ? tiles_of(task) : 0;
}
void run_swiglu(const void* args, const TaskRuntime& rt, std::uint32_t tile, std::uint32_t thread) {
  run_tile(as<SwigluTask>(args), rt, tile, thread);
}

std::uint64_t refresh_gated_product(void* args, const StepShape& shape) {
  auto& task = as<GatedProductTask>(args);
  const std::uint32_t rows = rows_of(task.rows, shape);
  task.swiglu.rows = rows;
  const Activations& input = task.input.of(rows);
  take(input, &task.gate);
  take(input, &task.up);
  return task.range.holds(rows) ? tiles_of(task) : 0;
}
void run_gated_product(const void* args,
                       const TaskRuntime& rt,
                       std::uint32_t tile,
                       std::uint32_t thread) {
  run_tile(as<GatedProductTask>(args), rt, tile, thread);
}
Status check_gated_product(const void* args) {
  const auto& task = as<GatedProductTask>(args);
  PHALANX_RETURN_IF_ERROR(check_columns(task.gate));
  return check_columns(task.up);
}

std::uint64_t refresh_reduce_tree(void* args, const StepShape& shape) {
  auto& task = as<ReduceTreeTask>(args);
  const std::uint32_t rows = rows_of(task.rows, shape);
  task.floats = std::size_t{rows} * task.row_floats;
  return task.range.holds(rows) ? task.floats : 0;
}
Status meet_reduce_tree(void* args, const TaskRuntime& rt) {
  const auto& task = as<ReduceTreeTask>(args);
  // A group of one has summed the whole tree already.
  if (rt.group->world() == 1) {
    return ok();
  }
  PHALANX_CHECK(task.node_count <= kMaxNodes, "a rank has no more nodes than its leaves allow");
  std::array<const float*, kMaxNodes> nodes{};
  for (std::uint32_t node = 0; node < task.node_count; ++node) {
    nodes[node] = task.nodes + node * task.node_stride;
  }
  return rt.group->reduce_tree(*task.plan,
                               std::span<const float* const>(nodes.data(), task.node_count),
                               {task.nodes, task.floats});
}

std::uint64_t refresh_meet(void* args, const StepShape& shape) {
  const auto& task = as<MeetTask>(args);
  return task.range.holds(rows_of(task.rows, shape)) ? 1 : 0;
}
Status meet_meet(void*, const TaskRuntime& rt) {
  return rt.group->barrier();
}

std::uint64_t refresh_sum_norm(void* args, const StepShape& shape) {
  auto& task = as<SumNormTask>(args);
  const std::uint32_t rows = rows_of(task.norm.rows, shape);
  if (!task.range.holds(rows)) {
    return 0;
  }
  task.own_rows = rows_of_rank(rows, task.rank, task.ranks);
  return kernels::row_tiles(task.own_rows.count);
}
void run_sum_norm(const void* args,
                  const TaskRuntime& rt,
                  std::uint32_t tile,
                  std::uint32_t thread) {
  run_tile(as<SumNormTask>(args), rt, tile, thread);
}

std::uint64_t refresh_gather_rows(void* args, const StepShape& shape) {
  auto& task = as<GatherRowsTask>(args);
  task.rows = rows_of(RowsOf::kNarrowed, shape);
  task.own_rows = rows_of_rank(shape.rows, task.rank, task.ranks);
  return task.range.holds(shape.rows) ? tiles_of(task) : 0;
}
void run_gather_rows(const void* args, const TaskRuntime&, std::uint32_t tile, std::uint32_t) {
  run_tile(as<GatherRowsTask>(args), tile);
}

std::uint64_t refresh_all_gather(void* args, const StepShape& shape) {
  auto& task = as<AllGatherTask>(args);
  task.bytes = task.row_bytes * rows_of(task.rows, shape);
  return task.bytes;
}
Status meet_all_gather(void* args, const TaskRuntime& rt) {
  const auto& task = as<AllGatherTask>(args);
  return rt.group->all_gather({task.own, task.bytes}, {task.all, task.bytes * rt.group->world()});
}

std::uint64_t refresh_sample_parts(void* args, const StepShape& shape) {
  const auto& task = as<SampleTask>(args);
  return task.sampler->tiles(rows_of(task.rows, shape));
}
std::uint64_t refresh_sample(void* args, const StepShape& shape) {
  return rows_of(as<SampleTask>(args).rows, shape);
}
void run_sample_shape(const void* args,
                      const TaskRuntime& rt,
                      std::uint32_t tile,
                      std::uint32_t thread) {
  const auto& task = as<SampleTask>(args);
  auto* own = static_cast<PeakRecord*>(task.own);
  task.sampler->shape(*rt.kernels, task.logits, task.shaped, own, tile, thread);
}
void run_sample_peak(const void* args, const TaskRuntime&, std::uint32_t tile, std::uint32_t) {
  const auto& task = as<SampleTask>(args);
  task.sampler->peak(static_cast<const PeakRecord*>(task.all), tile);
}
void run_sample_count(const void* args, const TaskRuntime& rt, std::uint32_t tile, std::uint32_t) {
  const auto& task = as<SampleTask>(args);
  task.sampler->count(*rt.kernels,
                      {task.logits, task.shaped},
                      {task.selection, task.pass},
                      static_cast<kernels::VocabHistogram*>(task.own),
                      tile);
}
void run_sample_select(const void* args, const TaskRuntime&, std::uint32_t tile, std::uint32_t) {
  const auto& task = as<SampleTask>(args);
  task.sampler->select({task.logits, task.shaped},
                       {task.selection, task.pass},
                       static_cast<const kernels::VocabHistogram*>(task.all),
                       tile);
}
void run_sample_draw(const void* args, const TaskRuntime& rt, std::uint32_t tile, std::uint32_t) {
  const auto& task = as<SampleTask>(args);
  task.sampler->draw(
      *rt.kernels, {task.logits, task.shaped}, static_cast<DrawRecord*>(task.own), tile);
}
void run_sample_finish(const void* args, const TaskRuntime&, std::uint32_t tile, std::uint32_t) {
  const auto& task = as<SampleTask>(args);
  task.sampler->finish(static_cast<const DrawRecord*>(task.all), task.results, tile);
}

template <typename Args>
constexpr CallableRow tiles_row(std::string_view name,
                                decltype(CallableRow::refresh) refresh,
                                decltype(CallableRow::run) run,
                                decltype(CallableRow::check) check = nullptr) {
  return {name, sizeof(Args), refresh, run, nullptr, check};
}
template <typename Args>
constexpr CallableRow collective_row(std::string_view name,
                                     decltype(CallableRow::refresh) refresh,
                                     decltype(CallableRow::meet) meet) {
  return {name, sizeof(Args), refresh, nullptr, meet, nullptr};
}

// In the order of Callable.
constexpr std::array<CallableRow, static_cast<std::size_t>(Callable::kCallableCount)> kTable = {
    tiles_row<kernels::EmbeddingArgs>(
        "embedding", refresh_embedding, run_embedding, check_embedding),
    tiles_row<RopeRowsTask>("rope_rows", refresh_rope_rows, run_rope_rows),
    tiles_row<RmsNormTask>("rms_norm", refresh_rms_norm, run_rms_norm),
    tiles_row<QuantizeTask>("quantize", refresh_quantize, run_quantize),
    tiles_row<MatmulTask>("matmul", refresh_matmul, run_matmul, check_matmul),
    tiles_row<HeadNormRopeTask>("head_norm_rope", refresh_head_norm_rope, run_head_norm_rope),
    tiles_row<HeadsTask>("heads", refresh_heads, run_heads),
    tiles_row<QueryProductTask>(
        "query_product", refresh_query_product, run_query_product, check_query_product),
    tiles_row<KeyValueProductTask>("key_value_product",
                                   refresh_key_value_product,
                                   run_key_value_product,
                                   check_key_value_product),
    tiles_row<AttentionTask>("attention", refresh_attention, run_attention),
    tiles_row<AttentionTask>("attention_fold", refresh_attention_fold, run_attention_fold),
    tiles_row<SwigluTask>("swiglu", refresh_swiglu, run_swiglu),
    tiles_row<GatedProductTask>(
        "gated_product", refresh_gated_product, run_gated_product, check_gated_product),
    collective_row<ReduceTreeTask>("reduce_tree", refresh_reduce_tree, meet_reduce_tree),
    collective_row<MeetTask>("meet", refresh_meet, meet_meet),
    tiles_row<SumNormTask>("sum_norm", refresh_sum_norm, run_sum_norm),
    tiles_row<GatherRowsTask>("gather_rows", refresh_gather_rows, run_gather_rows),
    collective_row<AllGatherTask>("all_gather", refresh_all_gather, meet_all_gather),
    tiles_row<SampleTask>("sample_shape", refresh_sample_parts, run_sample_shape),
    tiles_row<SampleTask>("sample_peak", refresh_sample, run_sample_peak),
    tiles_row<SampleTask>("sample_count", refresh_sample_parts, run_sample_count),
    tiles_row<SampleTask>("sample_select", refresh_sample, run_sample_select),
    tiles_row<SampleTask>("sample_draw", refresh_sample_parts, run_sample_draw),
    tiles_row<SampleTask>("sample_finish", refresh_sample, run_sample_finish),
};

}  // namespace

const CallableRow& callable_row(Callable callable) {
  return kTable[static_cast<std::size_t>(callable)];
}

std::uint64_t callables_hash() {
  Fingerprint hash;
  for (const CallableRow& row : kTable) {
    hash.add_text(row.name).add(row.args_bytes);
    hash.add(row.meet != nullptr ? 1 : 0);
  }
  return hash.value();
}

}  // namespace phalanx::model
