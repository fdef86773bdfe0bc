// SPDX-License-Identifier: Apache-2.0
// Kernels by themselves, on one thread: kernel_bench --help. A line of JSON for each figure.
// Shapes are those of a layer of Qwen3-0.6B; what each kind is measured with stands in the file of
// the kind.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "phalanx/flags/flag_table.h"
#include "phalanx/kernels/float_mode.h"
#include "phalanx/kernels/kernel_table.h"

#include "bench_main.h"
#include "engine_cells.h"
#include "engine_weights.h"
#include "kernel_attention.h"
#include "kernel_case.h"
#include "kernel_products.h"
#include "kernel_rows.h"
#include "kernel_sampling.h"
#include "machine.h"

namespace phalanx::bench {
namespace {

constexpr double kGiga = 1e9;

struct Options {
  std::string isa = "auto";
  std::string kernels = "matmul,attention,rows,sampling";
  std::string formats = "bf16,int8,int8-g32,int4,int4-g32-min-k,int6-g16-k";
  std::string rows = "1,4,16,64,512";
  std::int64_t rounds = 5;
};

flags::FlagTable flags_of(Options* options) {
  flags::FlagTable flags("kernel_bench", "Kernels by themselves, on one thread.", "KERNEL_BENCH_");
  flags.add_choice("isa", &options->isa, kernels::isa_choices(), "Instruction set");
  flags.add_text("kernel", &options->kernels, "LIST", "Of matmul, attention, rows, sampling");
  flags.add_text(
      "format", &options->formats, "LIST", "Weight formats of matmul and of the embedding");
  flags.add_text("rows", &options->rows, "LIST", "Rows of matmul");
  flags.add_int("rounds", &options->rounds, 1, 1000, "How often everything is measured, in turns");
  return flags;
}

Result<Scratch> make_scratch() {
  Scratch scratch;
  const std::size_t bytes = std::size_t{kMaxRows} * kIntermediate * sizeof(float) * 2;
  PHALANX_TRY(scratch.weights, take_memory("weights", kWeightBytes));
  PHALANX_TRY(scratch.in, take_memory("in", bytes));
  PHALANX_TRY(scratch.out, take_memory("out", bytes));
  for (os::Mapping* memory : {&scratch.weights, &scratch.in, &scratch.out}) {
    fill_random(memory->bytes(), 1);
  }
  return scratch;
}

Result<std::vector<kernels::WeightFormat>> formats_of(const std::string& list) {
  std::vector<kernels::WeightFormat> formats;
  for (const std::string& name : split(list)) {
    const auto format = std::ranges::find(
        kernels::kWeightFormats, name, [](auto each) { return weight_format_name(each); });
    if (format == kernels::kWeightFormats.end()) {
      return invalid_argument("--format: expected a weight format, found \"" + name + "\"");
    }
    formats.push_back(*format);
  }
  return formats;
}

Result<std::vector<Case>> cases_of(const Options& options,
                                   const kernels::KernelTable& table,
                                   Scratch& scratch) {
  PHALANX_TRY(const auto row_counts, parse_numbers("--rows", options.rows, 1, kMaxRows));
  PHALANX_TRY(const auto formats, formats_of(options.formats));
  std::vector<Case> cases;
  for (const std::string& kernel : split(options.kernels)) {
    if (kernel == "matmul") {
      add_products(cases, table, scratch, formats, row_counts);
    } else if (kernel == "attention") {
      add_attention_kernels(cases, table, scratch);
    } else if (kernel == "rows") {
      PHALANX_RETURN_IF_ERROR(add_row_kernels(cases, table, scratch, formats));
    } else if (kernel == "sampling") {
      add_sampling_kernels(cases, table);
    } else {
      return invalid_argument("--kernel: expected matmul, attention, rows or sampling, found \"" +
                              kernel + "\"");
    }
  }
  if (cases.empty()) {
    return invalid_argument(
        "--kernel: expected matmul, attention, rows or sampling, found nothing");
  }
  return cases;
}

// Seconds of one run: the best of a few, each long enough for the clock.
double time_of(const Case& one, std::size_t* turn) {
  constexpr double kLongEnough = 0.004;
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    double took = 0.0;
    int runs = 0;
    while (took < kLongEnough) {
      one.run((*turn)++);
      ++runs;
      took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    }
    best = std::min(best, took / runs);
  }
  return best;
}

void print(const Case& one, const std::string& isa, const std::string& machine) {
  const Spread seconds = spread_of(one.seconds);
  std::printf(
      "{\"bench\":\"kernel_bench\",\"isa\":\"%s\",%s,\"us\":%.4g,\"us_min\":%.4g,\"us_max\":%.4g,"
      "\"gop_per_s\":%.4g,\"gb_per_s\":%.4g,%s}\n",
      isa.c_str(),
      one.name.c_str(),
      seconds.median * 1e6,
      seconds.min * 1e6,
      seconds.max * 1e6,
      one.operations / seconds.median / kGiga,
      one.bytes / seconds.median / kGiga,
      machine.c_str());
  std::fprintf(stderr,
               "%-40s %10.1f us (%.1f-%.1f) %8.1f GOP/s %6.2f GB/s\n",
               one.row.c_str(),
               seconds.median * 1e6,
               seconds.min * 1e6,
               seconds.max * 1e6,
               one.operations / seconds.median / kGiga,
               one.bytes / seconds.median / kGiga);
}

Status measure(const Options& options) {
  const std::string machine = machine_json();
  PHALANX_TRY(const kernels::Isa isa, kernels::resolve_isa(options.isa));
  const kernels::KernelTable& table = kernels::kernel_table(isa);
  PHALANX_TRY(Scratch scratch, make_scratch());
  const kernels::FloatModeScope mode;
  PHALANX_TRY(std::vector<Case> cases, cases_of(options, table, scratch));
  std::size_t turn = 0;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    for (Case& one : cases) {
      one.seconds.push_back(time_of(one, &turn));
    }
  }
  for (const Case& one : cases) {
    print(one, std::string(kernels::isa_name(isa)), machine);
  }
  return ok();
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  phalanx::bench::Options options;
  phalanx::flags::FlagTable flags = phalanx::bench::flags_of(&options);
  return phalanx::bench::bench_main(
      "kernel_bench", flags, argc, argv, [&] { return phalanx::bench::measure(options); });
}
