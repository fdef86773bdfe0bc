// SPDX-License-Identifier: Apache-2.0
// Packs a checkpoint into an arena with several threads. The work is a list of jobs, each a run of
// strips of one weight; the fingerprint combines theirs in list order, so the number of threads
// does not show.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "phalanx/base/exception_error.h"
#include "phalanx/base/hash.h"
#include "phalanx/kernels/weight.h"
#include "phalanx/model/weight_arena.h"
#include "phalanx/tensor/half.h"

#include "arena_header.h"
#include "leaf_places.h"

namespace phalanx::model {
namespace {

using kernels::Bf16;
using kernels::kStripColumns;
using kernels::WeightFormat;

constexpr std::size_t kJobBytes = std::size_t{1} << 20;  // packed bytes of a job, about

struct Job {
  const checkpoint::WeightTensor* weight = nullptr;
  std::size_t offset = 0;     // in the arena
  std::size_t first_row = 0;  // rows of the weight are output columns
  std::size_t row_count = 0;
  std::size_t first_k = 0;
  std::size_t k_count = 0;
  std::optional<WeightFormat> format;  // none: a vector, fp32

  [[nodiscard]] std::size_t bytes() const {
    return format ? packed_bytes(*format, row_count, k_count) : k_count * sizeof(float);
  }
};

class JobList {
 public:
  explicit JobList(const checkpoint::Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  void vector(const std::string& name, std::size_t offset) {
    const checkpoint::WeightTensor& weight = checkpoint_.weight(name);
    jobs_.push_back({&weight, offset, 0, 1, 0, weight.columns, std::nullopt});
  }

  // The weight as one packed matrix.
  void matrix(const std::string& name, WeightFormat format, std::size_t offset) {
    const checkpoint::WeightTensor& weight = checkpoint_.weight(name);
    const std::size_t k_count = weight.columns;
    const std::size_t strip_bytes = packed_bytes(format, kStripColumns, k_count);
    const std::size_t rows_per_job =
        std::max<std::size_t>(1, kJobBytes / strip_bytes) * kStripColumns;
    for (std::size_t row = 0; row < weight.rows; row += rows_per_job) {
      const std::size_t rows = std::min<std::size_t>(rows_per_job, weight.rows - row);
      jobs_.push_back(
          {&weight, offset + row / kStripColumns * strip_bytes, row, rows, 0, k_count, format});
    }
  }

  // A leaf: columns [first_k, first_k + k_count) of the weight, by groups of its rows.
  void leaf(
      const std::string& name, WeightFormat format, std::size_t matrix, LeafPlace place, Run k) {
    const checkpoint::WeightTensor& weight = checkpoint_.weight(name);
    std::size_t offset = matrix + place.offset;
    for (std::size_t row = 0; row < weight.rows; row += kernels::kGroupColumns) {
      const std::size_t rows = std::min<std::size_t>(kernels::kGroupColumns, weight.rows - row);
      jobs_.push_back({&weight, offset, row, rows, k.first, k.count, format});
      offset += place.group_stride;
    }
  }

  [[nodiscard]] std::vector<Job> take() && { return std::move(jobs_); }

 private:
  const checkpoint::Checkpoint& checkpoint_;
  std::vector<Job> jobs_;
};

void add_vectors(const checkpoint::ModelConfig& config,
                 const std::string& prefix,
                 const LayerOffsets& layer,
                 JobList& jobs) {
  jobs.vector(prefix + "input_layernorm.weight", layer.attention_gain);
  jobs.vector(prefix + "post_attention_layernorm.weight", layer.mlp_gain);
  if (config.qk_norm) {
    jobs.vector(prefix + "self_attn.q_norm.weight", layer.q_gain);
    jobs.vector(prefix + "self_attn.k_norm.weight", layer.k_gain);
  }
  if (config.qkv_bias) {
    jobs.vector(prefix + "self_attn.q_proj.bias", layer.q_bias);
    jobs.vector(prefix + "self_attn.k_proj.bias", layer.k_bias);
    jobs.vector(prefix + "self_attn.v_proj.bias", layer.v_bias);
  }
  if (config.output_bias) {
    jobs.vector(prefix + "self_attn.o_proj.bias", layer.o_bias);
  }
  if (config.mlp_bias) {
    jobs.vector(prefix + "mlp.gate_proj.bias", layer.gate_bias);
    jobs.vector(prefix + "mlp.up_proj.bias", layer.up_bias);
    jobs.vector(prefix + "mlp.down_proj.bias", layer.down_bias);
  }
}

void add_layer(const checkpoint::ModelConfig& config,
               const std::string& prefix,
               const LayerOffsets& layer,
               std::uint32_t ranks,
               const checkpoint::LayerFormats& formats,
               JobList& jobs) {
  add_vectors(config, prefix, layer, jobs);
  jobs.matrix(prefix + "self_attn.q_proj.weight", formats.q, layer.q);
  jobs.matrix(prefix + "self_attn.k_proj.weight", formats.k, layer.k);
  jobs.matrix(prefix + "self_attn.v_proj.weight", formats.v, layer.v);
  const std::uint32_t head_k = config.heads_per_group() * config.head_dim;
  for (std::uint32_t head = 0; head < config.kv_heads; ++head) {
    jobs.leaf(prefix + "self_attn.o_proj.weight",
              formats.o,
              layer.o,
              o_leaf(config, formats.o, ranks, head),
              {head * head_k, head_k});
  }
  jobs.matrix(prefix + "mlp.gate_proj.weight", formats.gate, layer.gate);
  jobs.matrix(prefix + "mlp.up_proj.weight", formats.up, layer.up);
  const Units units = units_of(config);
  for (std::uint32_t unit = 0; unit < units.mlp; ++unit) {
    const Run blocks = units.mlp_blocks_of(unit);
    jobs.leaf(prefix + "mlp.down_proj.weight",
              formats.down,
              layer.down,
              down_leaf(config, formats.down, ranks, unit),
              {blocks.first * kMlpBlock, blocks.count * kMlpBlock});
  }
}

std::vector<Job> jobs_of(const checkpoint::Checkpoint& checkpoint,
                         const checkpoint::ModelConfig& config,
                         const ArenaLayout& layout) {
  JobList jobs(checkpoint);
  jobs.matrix("model.embed_tokens.weight", config.formats.embedding, layout.embedding);
  if (!config.tied_head) {
    jobs.matrix("lm_head.weight", config.formats.head, layout.head);
  }
  jobs.vector("model.norm.weight", layout.final_gain);
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    add_layer(config,
              "model.layers." + std::to_string(layer) + ".",
              layout.layers[layer],
              layout.ranks,
              config.formats.layer(layer),
              jobs);
  }
  return std::move(jobs).take();
}

// What a thread reads rows into.
struct RowBuffers {
  std::vector<Bf16> numbers;
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
  std::vector<float> minima;
  std::vector<float> superscales;
  std::vector<float> superminima;
};

// Whether the format holds the codes of the file, and the job's columns are whole groups of them.
bool keeps_codes(const Job& job) {
  const std::optional<WeightFormat> stored = checkpoint::format_of_codes(job.weight->type);
  return job.format && stored &&
         (job.format == stored || job.format == checkpoint::in_one_level(*stored)) &&
         job.first_k % kernels::kDotBlock == 0 && job.k_count % kernels::kDotBlock == 0;
}

Status pack_codes(const Job& job, std::span<std::byte> target, RowBuffers& buffers) {
  const std::size_t groups = job.k_count / gguf::kCodeGroup;
  const bool two_levels = kernels::traits_of(*job.format).has_two_levels();
  const std::size_t superblocks = two_levels ? job.k_count / gguf::kSuperblock : 0;
  buffers.codes.resize(job.row_count * job.k_count);
  buffers.scales.resize(job.row_count * groups);
  buffers.minima.resize(job.row_count * groups);
  buffers.superscales.resize(job.row_count * superblocks);
  buffers.superminima.resize(job.row_count * superblocks);
  for (std::size_t row = 0; row < job.row_count; ++row) {
    job.weight->read_codes(
        job.first_row + row,
        job.first_k,
        {std::span(buffers.codes).subspan(row * job.k_count, job.k_count),
         std::span(buffers.scales).subspan(row * groups, groups),
         std::span(buffers.minima).subspan(row * groups, groups),
         std::span(buffers.superscales).subspan(row * superblocks, superblocks),
         std::span(buffers.superminima).subspan(row * superblocks, superblocks)});
  }
  return kernels::pack_coded_strips({buffers.codes.data(),
                                     buffers.scales.data(),
                                     buffers.minima.data(),
                                     job.row_count,
                                     job.k_count,
                                     two_levels ? buffers.superscales.data() : nullptr,
                                     two_levels ? buffers.superminima.data() : nullptr,
                                     job.first_row,
                                     job.first_k},
                                    *job.format,
                                    target);
}

// What is no number makes none of every sum that it is in: requests would fail one by one, and seem
// to be at fault.
Status check_finite(const Job& job, std::span<const Bf16> rows) {
  bool all = true;
  for (const Bf16 number : rows) {
    all &= tensor::is_finite(number);  // no branch, so that many are looked at at once
  }
  if (all) {
    return ok();
  }
  const auto bad = static_cast<std::size_t>(
      std::find_if_not(rows.begin(), rows.end(), tensor::is_finite) - rows.begin());
  return data_loss("row " + std::to_string(job.first_row + bad / job.k_count) + ", column " +
                   std::to_string(job.first_k + bad % job.k_count) +
                   ": expected a number that bf16 holds, found an infinite one or NaN: the file "
                   "is damaged or was converted wrongly");
}

void write_vector(std::span<const Bf16> numbers, std::byte* target) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const float value = tensor::to_float(tensor::canonical(numbers[i]));
    std::memcpy(target + i * sizeof(float), &value, sizeof(float));
  }
}

// Reads the job's rows into the buffers, which it may resize, and writes them where they go.
Status run_job(const Job& job, std::span<std::byte> memory, RowBuffers& buffers) {
  const std::span<std::byte> target = memory.subspan(job.offset, job.bytes());
  if (keeps_codes(job)) {
    return pack_codes(job, target, buffers);
  }
  std::vector<Bf16>& rows = buffers.numbers;
  rows.resize(job.row_count * job.k_count);
  for (std::size_t row = 0; row < job.row_count; ++row) {
    job.weight->read_bf16(
        job.first_row + row, job.first_k, std::span(rows).subspan(row * job.k_count, job.k_count));
  }
  PHALANX_RETURN_IF_ERROR(check_finite(job, rows));
  if (!job.format) {
    write_vector(rows, target.data());
    return ok();
  }
  const tensor::MatrixView<const Bf16> from{rows.data(), job.row_count, job.k_count, job.k_count};
  return kernels::pack_weight_strips(from, 0, *job.format, target);
}

class Filler {
 public:
  Filler(std::span<const Job> jobs, std::span<std::byte> memory)
      : jobs_(jobs), memory_(memory), hashes_(jobs.size()) {}

  // Takes jobs until none is left or one has failed. `report` is called after each.
  template <typename Report>
  void work(const Report& report) noexcept {
    try {
      take_jobs(report);
    } catch (const std::exception& exception) {
      fail(error_of(exception));
    }
  }

  [[nodiscard]] std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }

  // After the last work().
  [[nodiscard]] Status status() { return failed_ ? Status(std::move(*failed_)) : ok(); }

  [[nodiscard]] std::uint64_t content_hash() const {
    Fingerprint hash;
    for (const std::uint64_t job : hashes_) {
      hash.add(job);
    }
    return hash.value();
  }

 private:
  template <typename Report>
  void take_jobs(const Report& report) {
    RowBuffers buffers;
    for (;;) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= jobs_.size()) {
        return;
      }
      const Job& job = jobs_[index];
      if (Status packed = run_job(job, memory_, buffers); !packed) {
        fail(std::move(packed).error().with(std::string(job.weight->name)));
        return;
      }
      Fingerprint hash;
      hashes_[index] = hash.add_bytes(memory_.subspan(job.offset, job.bytes())).value();
      done_.fetch_add(job.bytes(), std::memory_order_relaxed);
      report();
    }
  }

  // The first failure counts; the other threads stop at their next job.
  void fail(Error error) {
    const std::lock_guard lock(mutex_);
    next_.store(jobs_.size(), std::memory_order_relaxed);
    if (!failed_) {
      failed_ = std::move(error);
    }
  }

  std::span<const Job> jobs_;
  std::span<std::byte> memory_;
  std::vector<std::uint64_t> hashes_;
  std::mutex mutex_;
  std::optional<Error> failed_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> done_{0};
};

void fill(Filler& filler, const FillOptions& options, std::uint64_t total) {
  const auto help = [&filler] { filler.work([] {}); };
  std::vector<std::thread> helpers;
  helpers.reserve(options.threads);
  for (std::uint32_t i = 1; i < options.threads; ++i) {
    try {
      helpers.emplace_back(help);
    } catch (const std::system_error&) {
      break;  // no more threads for this user: those there do the work
    }
  }
  filler.work([&] {
    if (options.progress) {
      options.progress(filler.done(), total);
    }
  });
  for (std::thread& helper : helpers) {
    helper.join();
  }
}

}  // namespace

Result<std::uint64_t> fill_arena(const checkpoint::Checkpoint& checkpoint,
                                 const checkpoint::ModelConfig& config,
                                 std::span<std::byte> memory,
                                 const FillOptions& options) {
  checkpoint::ModelConfig found = checkpoint.config();
  found.formats = config.formats;
  if (checkpoint::hash_of(found) != checkpoint::hash_of(config)) {
    return failed_precondition(
        "the model's files describe another model than when the server started");
  }
  if (const auto shard = plan_shard(config, 0, options.ranks); !shard) {
    return Error(shard.error()).with("weight arena: number of ranks");
  }
  const ArenaLayout layout = layout_of(config, options.ranks);
  if (memory.size() != layout.bytes ||
      reinterpret_cast<std::uintptr_t>(memory.data()) % tensor::kRowAlignment != 0) {
    return invalid_argument("weight arena: expected " + std::to_string(layout.bytes) +
                            " aligned bytes, found " + std::to_string(memory.size()));
  }
  const std::vector<Job> jobs = jobs_of(checkpoint, config, layout);
  std::uint64_t total = 0;
  for (const Job& job : jobs) {
    total += job.bytes();
  }
  Filler filler(jobs, memory);
  fill(filler, options, total);
  PHALANX_RETURN_IF_ERROR(filler.status());
  if (options.progress) {
    options.progress(total, total);
  }
  for (const checkpoint::WeightSpec& spec : checkpoint::required_weights(config)) {
    checkpoint.done_with(spec.name);
  }
  ArenaHeader header;
  header.version = kArenaVersion;
  header.bytes = layout.bytes;
  header.config_hash = checkpoint::hash_of(config);
  header.ranks = options.ranks;
  header.key = arena_key(config, options.ranks, checkpoint.structure_hash());
  header.content_hash = filler.content_hash();
  std::memcpy(memory.data(), &header, sizeof(header));
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(memory.data()))
      .store(ArenaHeader::kMagic, std::memory_order_release);
  return header.content_hash;
}

}  // namespace phalanx::model
