// SPDX-License-Identifier: Apache-2.0
// Prefill and decode of the engine without a server, in one process, beside what the machine could
// do at most: engine_bench --help. A line of JSON for each figure; a table on stderr.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/bytes_text.h"
#include "phalanx/checkpoint/model_folder.h"
#include "phalanx/checkpoint/model_path.h"
#include "phalanx/flags/flag_table.h"
#include "phalanx/kernels/isa.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/os/cpu_topology.h"
#include "phalanx/os/machine.h"
#include "phalanx/step/choices.h"

#include "bench_main.h"
#include "engine_cells.h"
#include "engine_group.h"
#include "engine_limit.h"
#include "engine_options.h"
#include "engine_peaks.h"
#include "engine_weights.h"
#include "machine.h"

namespace phalanx::bench {
namespace {

constexpr std::uint32_t kMaxTokens = 1 << 20;
constexpr std::uint32_t kAllLayers = 28;
constexpr double kGiga = 1e9;

// A cell in one format on one group, and what was measured so far.
struct Figure {
  Cell cell;
  std::size_t arena = 0;
  std::size_t group = 0;
  Job job;
  bool by_reading = false;
  std::vector<double> rates{};   // tokens per second; none with --only-limits, nor shares
  std::vector<double> limits{};  // the same, of the machine in the same round
  std::vector<double> shares{};
};

std::string spread_json(const std::string& name, const std::vector<double>& samples) {
  const Spread spread = spread_of(samples);
  char text[256];
  std::snprintf(text,
                sizeof(text),
                "\"%s\":%.6g,\"%s_min\":%.6g,\"%s_max\":%.6g",
                name.c_str(),
                spread.median,
                name.c_str(),
                spread.min,
                name.c_str(),
                spread.max);
  return text;
}

class Bench {
 public:
  Status prepare(const Options& options);
  Status run(std::int64_t rounds);
  void print() const;

 private:
  Status load(const Options& options);
  Status plan(const Options& options);
  Status make_groups(const step::RankLimits& limits);
  Status measure_machine();
  void print_machine() const;
  void print_figure(const Figure& figure, const std::string& machine) const;
  void print_row(const Figure& figure,
                 const char* what,
                 const std::string& format,
                 const char* by) const;

  std::string machine_;
  os::CpuList cpus_;
  kernels::Isa isa_ = kernels::Isa::kRef;
  bool only_limits_ = false;
  std::vector<std::uint32_t> ranks_;
  CellShape shape_;
  std::vector<std::vector<Arena>> arenas_;  // by group, and of it by format
  os::Mapping kv_;
  os::Mapping buffer_;
  std::unique_ptr<Crew> crew_;  // of all cores, for the peaks
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Figure> figures_;
  std::vector<Peaks> peaks_;  // by round
};

Status Bench::load(const Options& options) {
  std::unique_ptr<checkpoint::FileSource> files;
  if (options.model.empty()) {
    const auto layers = static_cast<std::uint32_t>(options.layers);
    PHALANX_TRY(files, make_synthetic_model(layers == 0 ? kAllLayers : layers));
  } else if (options.layers != 0) {
    return invalid_argument("--layers: expected without --model, whose layers are all taken");
  } else {
    PHALANX_RETURN_IF_ERROR(checkpoint::check_model_path(options.model));
    files = std::make_unique<checkpoint::ModelFolder>(options.model);
  }
  PHALANX_TRY(const checkpoint::Checkpoint checkpoint, checkpoint::Checkpoint::open(*files));
  const std::vector<std::string> choices = step::quantization_choices();
  arenas_.resize(ranks_.size());
  for (const std::string& format : split(options.formats)) {
    if (std::find(choices.begin(), choices.end(), format) == choices.end()) {
      return invalid_argument("--format: expected names that --quantization takes, found \"" +
                              format + "\"");
    }
    for (std::size_t group = 0; group < ranks_.size(); ++group) {
      Arena arena;
      if (only_limits_) {
        arena.config = checkpoint.config();
        arena.config.formats = checkpoint.formats_for(format);
      } else {
        std::fprintf(stderr, "packing %s for %u ranks\n", format.c_str(), ranks_[group]);
        PHALANX_TRY(arena, make_arena(checkpoint, format, ranks_[group]));
      }
      arenas_[group].push_back(std::move(arena));
    }
  }
  return arenas_[0].empty() ? Status(invalid_argument("--format: expected a format, found none"))
                            : ok();
}

// A cell whose KV does not fit into memory is left out, and said so.
Status Bench::plan(const Options& options) {
  PHALANX_TRY(const auto prompts, parse_numbers("--pp", options.prompts, 1, kMaxTokens));
  PHALANX_TRY(const auto batches,
              parse_numbers("--tg", options.batches, 1, step::kMaxSequencesPerStep));
  PHALANX_TRY(const auto contexts, parse_numbers("--context", options.contexts, 1, kMaxTokens));
  PHALANX_TRY(const std::uint64_t available, os::available_memory_bytes());
  PHALANX_TRY(const std::size_t block,
              model::replica_block_bytes(arenas_[0][0].config, 1, shape_.kv_format));
  std::vector<Cell> cells;
  for (const Cell& cell : cells_of(prompts, batches, contexts)) {
    const std::size_t bytes = block * blocks_of(cell, shape_);
    if (!only_limits_ && bytes > available / 4 * 3) {
      std::fprintf(stderr,
                   "left out: %u sequences at %u tokens need %s of KV\n",
                   cell.sequences,
                   cell.tokens,
                   bytes_text(bytes).c_str());
      continue;
    }
    cells.push_back(cell);
  }
  if (cells.empty()) {
    return invalid_argument("nothing is left to measure");
  }
  for (const Cell& cell : cells) {
    for (std::size_t group = 0; group < ranks_.size(); ++group) {
      for (std::size_t arena = 0; arena < arenas_[group].size(); ++arena) {
        const std::uint32_t vocab = arenas_[group][arena].config.vocab;
        figures_.push_back({cell, arena, group, job_of(cell, shape_, vocab)});
      }
    }
  }
  return only_limits_ ? ok() : make_groups(limits_for(cells, shape_));
}

Status Bench::make_groups(const step::RankLimits& limits) {
  std::size_t kv_bytes = 0;
  for (const std::uint32_t ranks : ranks_) {
    PHALANX_TRY(const std::size_t bytes, group_kv_bytes(arenas_[0][0].config, ranks, limits));
    kv_bytes = std::max(kv_bytes, bytes);
  }
  PHALANX_TRY(kv_, take_memory("kv", kv_bytes));
  fill_random(kv_.bytes(), 1);
  for (std::size_t group = 0; group < ranks_.size(); ++group) {
    GroupOptions options;
    options.cpus = os::default_core_sets(ranks_[group], os::read_cpu_topology(cpus_));
    options.limits = limits;
    options.isa = isa_;
    PHALANX_TRY(auto made, Group::create(options, arenas_[group], kv_.bytes()));
    groups_.push_back(std::move(made));
  }
  return ok();
}

Status Bench::prepare(const Options& options) {
  machine_ = machine_json();
  only_limits_ = options.only_limits;
  // Those that a group takes: of processors that share a core one.
  cpus_ = os::default_core_sets(1, os::read_cpu_topology(os::allowed_cpus())).front();
  if (options.threads > 0) {
    if (static_cast<std::size_t>(options.threads) > cpus_.size()) {
      return invalid_argument("--threads: expected at most the " + std::to_string(cpus_.size()) +
                              " cores of this process, found " + std::to_string(options.threads));
    }
    cpus_.resize(static_cast<std::size_t>(options.threads));
  }
  PHALANX_TRY(isa_, kernels::resolve_isa(options.isa));
  PHALANX_TRY(ranks_,
              parse_numbers("--tp", options.tp, 1, static_cast<std::uint32_t>(cpus_.size())));
  if (ranks_.empty()) {
    return invalid_argument("--tp: expected a number of ranks, found none");
  }
  shape_.chunk = static_cast<std::uint32_t>(options.chunk);
  shape_.steps = static_cast<std::uint32_t>(options.steps);
  shape_.kv_format = step::kv_format_of(options.kv_cache_dtype);
  PHALANX_TRY(buffer_, take_memory("buffer", read_buffer_bytes()));
  crew_ = std::make_unique<Crew>(cpus_);
  PHALANX_RETURN_IF_ERROR(load(options));
  return plan(options);
}

Status Bench::measure_machine() {
  crew_->begin([this](kernels::ThreadTeam& team) {
    peaks_.push_back(measure_peaks(team, isa_, buffer_.bytes()));
    return ok();
  });
  return crew_->finish();
}

// The machine first in each round, because its speed changes from one minute to the next.
Status Bench::run(std::int64_t rounds) {
  for (std::int64_t round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "round %d\n", static_cast<int>(round + 1));
    PHALANX_RETURN_IF_ERROR(measure_machine());
    for (Figure& figure : figures_) {
      const double tokens = tokens_of(figure.job);
      const Limit limit =
          limit_of_job(arenas_[figure.group][figure.arena].config, figure.job, peaks_.back());
      figure.limits.push_back(tokens / limit.seconds);
      figure.by_reading = limit.by_reading;
      if (only_limits_) {
        continue;
      }
      PHALANX_TRY(const double seconds, groups_[figure.group]->run(figure.arena, figure.job));
      figure.rates.push_back(tokens / seconds);
      figure.shares.push_back(limit.seconds / seconds);
    }
  }
  return ok();
}

void Bench::print_machine() const {
  const auto rates = [&](double Peaks::*peak) {
    std::vector<double> samples;
    for (const Peaks& peaks : peaks_) {
      samples.push_back(peaks.*peak / kGiga);
    }
    return samples;
  };
  const std::vector<double> read = rates(&Peaks::read_bytes);
  const std::vector<double> fma = rates(&Peaks::fma_flops);
  const std::vector<double> bf16 = rates(&Peaks::bf16_flops);
  const std::vector<double> int8 = rates(&Peaks::int8_ops);
  const std::vector<double> int4 = rates(&Peaks::int4_ops);
  std::printf(
      "{\"bench\":\"engine_bench\",\"what\":\"limits\",\"isa\":\"%s\",\"threads\":%zu,"
      "\"rounds\":%zu,%s,%s,%s,%s,%s,%s}\n",
      std::string(kernels::isa_name(isa_)).c_str(),
      cpus_.size(),
      peaks_.size(),
      spread_json("read_gb_per_s", read).c_str(),
      spread_json("fma_gflop_per_s", fma).c_str(),
      spread_json("bf16_gflop_per_s", bf16).c_str(),
      spread_json("int8_gop_per_s", int8).c_str(),
      spread_json("int4_gop_per_s", int4).c_str(),
      machine_.c_str());
  std::fprintf(stderr,
               "\n%zu threads, %s: read %.1f GB/s, fma %.1f GFLOP/s, bf16 %.1f GFLOP/s, "
               "int8 %.1f GOP/s, int4 %.1f GOP/s\n\n%-4s %-13s %2s %5s %8s %20s %10s %-8s %s\n",
               cpus_.size(),
               std::string(kernels::isa_name(isa_)).c_str(),
               spread_of(read).median,
               spread_of(fma).median,
               spread_of(bf16).median,
               spread_of(int8).median,
               spread_of(int4).median,
               "what",
               "format",
               "tp",
               "batch",
               "tokens",
               "tok/s (min-max)",
               "limit",
               "by",
               "share (min-max)");
}

void Bench::print_figure(const Figure& figure, const std::string& machine) const {
  const std::string format = describe(arenas_[figure.group][figure.arena].config.formats);
  const char* const what = figure.cell.is_prefill ? "pp" : "tg";
  const char* const by = figure.by_reading ? "read" : "compute";
  const std::string measured = only_limits_ ? ""
                                            : spread_json("tokens_per_s", figure.rates) + "," +
                                                  spread_json("share", figure.shares) + ",";
  std::printf(
      "{\"bench\":\"engine_bench\",\"what\":\"%s\",\"format\":\"%s\",\"kv\":\"%s\",\"tp\":%u,"
      "\"isa\":\"%s\",\"threads\":%zu,\"chunk\":%u,\"steps\":%zu,\"batch\":%u,\"%s\":%u,"
      "\"layers\":%u,\"rounds\":%zu,"
      "%s%s,\"limit_by\":\"%s\",%s}\n",
      what,
      format.c_str(),
      std::string(step::kv_format_name(shape_.kv_format)).c_str(),
      ranks_[figure.group],
      std::string(kernels::isa_name(isa_)).c_str(),
      cpus_.size(),
      shape_.chunk,
      figure.job.steps.size() - figure.job.warm_up,
      figure.cell.sequences,
      figure.cell.is_prefill ? "prompt" : "context",
      figure.cell.tokens,
      arenas_[figure.group][figure.arena].config.layers,
      figure.limits.size(),
      measured.c_str(),
      spread_json("limit_tokens_per_s", figure.limits).c_str(),
      by,
      machine.c_str());
  print_row(figure, what, format, by);
}

void Bench::print_row(const Figure& figure,
                      const char* what,
                      const std::string& format,
                      const char* by) const {
  char rates[64] = "-";
  char shares[64] = "-";
  if (!only_limits_) {
    const Spread rate = spread_of(figure.rates);
    const Spread share = spread_of(figure.shares);
    std::snprintf(rates, sizeof(rates), "%.1f (%.1f-%.1f)", rate.median, rate.min, rate.max);
    std::snprintf(shares,
                  sizeof(shares),
                  "%.0f %% (%.0f-%.0f)",
                  100 * share.median,
                  100 * share.min,
                  100 * share.max);
  }
  std::fprintf(stderr,
               "%-4s %-13s %2u %5u %8u %20s %10.1f %-8s %s\n",
               what,
               format.c_str(),
               ranks_[figure.group],
               figure.cell.sequences,
               figure.cell.tokens,
               rates,
               spread_of(figure.limits).median,
               by,
               shares);
}

void Bench::print() const {
  print_machine();
  for (const Figure& figure : figures_) {
    print_figure(figure, machine_);
  }
}

Status measure(const Options& options) {
  Bench bench;
  PHALANX_RETURN_IF_ERROR(bench.prepare(options));
  PHALANX_RETURN_IF_ERROR(bench.run(options.rounds));
  bench.print();
  return ok();
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  phalanx::bench::Options options;
  phalanx::flags::FlagTable flags = phalanx::bench::flags_of(&options);
  return phalanx::bench::bench_main(
      "engine_bench", flags, argc, argv, [&] { return phalanx::bench::measure(options); });
}
