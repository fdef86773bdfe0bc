// SPDX-License-Identifier: Apache-2.0
// Kernels by themselves, on one thread: kernel_bench --help. A line of JSON for each figure.
//
// Products have the shapes of a layer of Qwen3-0.6B: the gate (K 1024, one leaf) and the down
// projection (K 3072, a leaf for each of 16 runs, which lie in each other as in an arena). Their
// weights are as many different matrices as a step would read from memory.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/checkpoint/config.h"
#include "phalanx/flags/flag_table.h"
#include "phalanx/kernels/float_mode.h"
#include "phalanx/kernels/kernel_table.h"
#include "phalanx/os/memfd.h"

#include "bench_main.h"
#include "engine_cells.h"
#include "engine_weights.h"
#include "kernel_case.h"
#include "kernel_sampling.h"
#include "machine.h"

namespace phalanx::bench {
namespace {

constexpr std::uint32_t kHidden = 1024;
constexpr std::uint32_t kIntermediate = 3072;
constexpr std::uint32_t kKvHeads = 8;
constexpr std::uint32_t kGroup = 2;
constexpr std::uint32_t kHeadDim = 128;
constexpr std::uint32_t kMaxRows = 512;
constexpr std::size_t kWeightBytes = std::size_t{192} << 20;  // more than caches hold
constexpr step::KvFormat kKvFormats[] = {step::KvFormat::kBf16, step::KvFormat::kInt8};
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
  flags.add_text("format", &options->formats, "LIST", "Weight formats of matmul");
  flags.add_text("rows", &options->rows, "LIST", "Rows of matmul");
  flags.add_int("rounds", &options->rounds, 1, 1000, "How often everything is measured, in turns");
  return flags;
}

// Memory for activations and results of every figure; what is in it does not matter but that it is
// finite.
struct Scratch {
  os::Mapping weights;
  os::Mapping in;
  os::Mapping out;
};

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

class Products {
 public:
  Products(const kernels::KernelTable& table, Scratch& scratch)
      : table_(table), scratch_(scratch), sums_(kMaxRows * kIntermediate / 32) {}

  // `leaves` leaves of k / leaves each: 64 columns of all of them, then the next 64.
  void add(std::vector<Case>& cases,
           kernels::WeightFormat format,
           std::uint32_t rows,
           std::uint32_t k,
           std::uint32_t columns,
           std::uint32_t leaves) {
    const std::string name(kernels::weight_format_name(format));
    const std::size_t leaf_bytes =
        kernels::weight_bytes(format, k / leaves, kernels::kGroupColumns);
    const std::size_t bytes = leaf_bytes * leaves * (columns / kernels::kGroupColumns);
    Case product;
    product.name = "\"kernel\":\"matmul\",\"format\":\"" + name +
                   "\",\"rows\":" + std::to_string(rows) + ",\"k\":" + std::to_string(k) +
                   ",\"columns\":" + std::to_string(columns) +
                   ",\"leaves\":" + std::to_string(leaves);
    product.row = "matmul " + name + " " + std::to_string(rows) + " x " + std::to_string(k) +
                  " x " + std::to_string(columns);
    product.operations = 2.0 * rows * k * columns;
    product.bytes = static_cast<double>(bytes);
    product.run = [=, this](std::size_t turn) {
      run(format, rows, k, columns, leaves, leaf_bytes, turn);
    };
    cases.push_back(std::move(product));
  }

 private:
  void run(kernels::WeightFormat format,
           std::uint32_t rows,
           std::uint32_t k,
           std::uint32_t columns,
           std::uint32_t leaves,
           std::size_t leaf_bytes,
           std::size_t turn) {
    const std::size_t group_stride = leaf_bytes * leaves;
    const std::size_t bytes = group_stride * (columns / kernels::kGroupColumns);
    const std::byte* weights = scratch_.weights.data() + turn % (kWeightBytes / bytes) * bytes;
    std::vector<kernels::MatmulLeaf> parts(leaves);
    for (std::uint32_t i = 0; i < leaves; ++i) {
      parts[i].weight = {
          format, k / leaves, columns, weights + i * leaf_bytes, leaves > 1 ? group_stride : 0};
      parts[i].first_k = i * (k / leaves);
    }
    PHALANX_CHECK(kernels::plan_leaves(leaves, 0, parts) == 1, "all leaves make one node");
    kernels::MatmulArgs args;
    args.rows = rows;
    args.leaves = parts.data();
    args.leaf_count = leaves;
    args.columns = columns;
    args.out = reinterpret_cast<float*>(scratch_.out.data());
    args.out_stride = columns;
    if (format == kernels::WeightFormat::kBf16) {
      args.activations = reinterpret_cast<const tensor::Bf16*>(scratch_.in.data());
      args.activation_stride = k;
    } else {
      args.quantized.codes = reinterpret_cast<std::int8_t*>(scratch_.in.data());
      args.quantized.code_stride = k;
      args.quantized.sums = sums_.data();
      args.quantized.scales = reinterpret_cast<float*>(scratch_.in.data());
      args.quantized.span = format == kernels::WeightFormat::kInt8 ? kernels::ScaleSpan::kLeaf
                                                                   : kernels::ScaleSpan::kBlock;
    }
    for (std::uint32_t tile = 0; tile < kernels::matmul_tiles(args); ++tile) {
      table_.matmul(args, tile);
    }
  }

  const kernels::KernelTable& table_;
  Scratch& scratch_;
  std::vector<std::int32_t> sums_;
};

class Attention {
 public:
  Attention(const kernels::KernelTable& table, Scratch& scratch)
      : table_(table), scratch_(scratch), blocks_(kTokens / kernels::kKvBlockTokens) {
    std::iota(blocks_.rbegin(), blocks_.rend(), 0U);
  }

  void add(std::vector<Case>& cases,
           step::KvFormat format,
           std::uint32_t sequences,
           std::uint32_t rows,
           std::uint32_t context) {
    Case attention;
    const std::string name = format == step::KvFormat::kInt8 ? "attention-int8" : "attention";
    attention.name = "\"kernel\":\"" + name + "\",\"sequences\":" + std::to_string(sequences) +
                     ",\"rows\":" + std::to_string(rows) +
                     ",\"context\":" + std::to_string(context);
    attention.row = name + " " + std::to_string(sequences) + " x " + std::to_string(rows) + " at " +
                    std::to_string(context);
    const double pairs = static_cast<double>(rows) * context - rows * (rows - 1.0) / 2;
    attention.operations = 4.0 * sequences * pairs * kKvHeads * kGroup * kHeadDim;
    attention.bytes = static_cast<double>(kernels::kv_tile(format, kHeadDim).bytes) /
                      kernels::kKvBlockTokens * sequences * context * kKvHeads;
    attention.run = [=, this](std::size_t turn) { run(format, sequences, rows, context, turn); };
    cases.push_back(std::move(attention));
  }

 private:
  static constexpr std::uint32_t kTokens = 8192;

  // Sequences lie one behind the other in the blocks, from the last to the first.
  void run(step::KvFormat format,
           std::uint32_t count,
           std::uint32_t rows,
           std::uint32_t context,
           std::size_t turn) {
    const std::size_t tile = kernels::kv_tile(format, kHeadDim).bytes;
    const std::size_t bytes = blocks_.size() * kKvHeads * tile;
    const std::size_t blocks = (context + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
    std::vector<kernels::AttentionSequence> sequences(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      sequences[i].first_row = i * rows;
      sequences[i].row_count = rows;
      sequences[i].first_position = context - rows;
      sequences[i].blocks = blocks_.data() + i * blocks;
    }
    kernels::AttentionArgs args;
    args.q = reinterpret_cast<const tensor::Bf16*>(scratch_.in.data());
    args.q_stride = std::size_t{kKvHeads} * kGroup * kHeadDim;
    args.out = reinterpret_cast<tensor::Bf16*>(scratch_.out.data());
    args.out_stride = args.q_stride;
    args.kv = {scratch_.weights.data() + turn % (kWeightBytes / bytes) * bytes,
               tile * kKvHeads,
               tile,
               format};
    args.kv_heads = kKvHeads;
    args.group = kGroup;
    args.head_dim = kHeadDim;
    args.scale = kernels::attention_scale(kHeadDim);
    args.sequences = sequences.data();
    args.sequence_count = count;
    const std::uint32_t tiles = kernels::plan_attention(sequences, kKvHeads, kGroup, {}).tiles;
    for (std::uint32_t i = 0; i < tiles; ++i) {
      table_.attention(args, i);
    }
  }

  const kernels::KernelTable& table_;
  Scratch& scratch_;
  std::vector<std::uint32_t> blocks_;
};

// What is done to every row of a layer besides, on 512 rows.
void add_row_kernels(std::vector<Case>& cases,
                     const kernels::KernelTable& table,
                     Scratch& scratch) {
  auto* const in = reinterpret_cast<float*>(scratch.in.data());
  auto* const out = scratch.out.data();
  const auto add = [&](const std::string& name, auto kernel, auto args, std::uint32_t tiles) {
    Case rows;
    rows.name = "\"kernel\":\"" + name + "\",\"rows\":" + std::to_string(kMaxRows);
    rows.row = name;
    rows.run = [=](std::size_t /*turn*/) {
      for (std::uint32_t tile = 0; tile < tiles; ++tile) {
        kernel(args, tile);
      }
    };
    cases.push_back(std::move(rows));
  };
  kernels::RmsNormArgs norm;
  norm.x = in;
  norm.x_stride = norm.out_stride = norm.hidden = kHidden;
  norm.gain = in;
  norm.epsilon = 1e-6F;
  norm.out = reinterpret_cast<tensor::Bf16*>(out);
  norm.rows = kMaxRows;
  add("rms_norm", table.rms_norm, norm, kernels::row_tiles(kMaxRows));
  kernels::SwigluArgs swiglu;
  swiglu.gate = swiglu.up = in;
  swiglu.gate_stride = swiglu.up_stride = swiglu.out_stride = swiglu.columns = kIntermediate;
  swiglu.out = reinterpret_cast<tensor::Bf16*>(out);
  swiglu.rows = kMaxRows;
  add("swiglu", table.swiglu, swiglu, kernels::row_tiles(kMaxRows));
  static const kernels::QuantizeLeaf kLeaf{0, kIntermediate};
  static std::vector<std::int32_t> sums(std::size_t{kMaxRows} * kIntermediate / 32);
  static std::vector<float> scales(sums.size());
  kernels::QuantizeArgs quantize;
  quantize.x = in;
  quantize.x_stride = kIntermediate;
  quantize.rows = kMaxRows;
  quantize.leaves = &kLeaf;
  quantize.leaf_count = 1;
  quantize.out = {reinterpret_cast<std::int8_t*>(out),
                  kIntermediate,
                  sums.data(),
                  scales.data(),
                  kernels::ScaleSpan::kBlock};
  add("quantize", table.quantize, quantize, kernels::row_tiles(kMaxRows));
  static std::vector<std::uint64_t> slots(kMaxRows);
  static std::atomic<std::uint64_t> non_finite{0};
  std::iota(slots.begin(), slots.end(), std::uint64_t{0});
  kernels::KvAppendArgs append;
  append.keys = reinterpret_cast<const tensor::Bf16*>(in);
  append.values = in;
  append.key_stride = append.value_stride = std::size_t{kKvHeads} * kHeadDim;
  append.slots = slots.data();
  append.rows = kMaxRows;
  append.kv_heads = kKvHeads;
  append.head_dim = kHeadDim;
  append.non_finite = &non_finite;
  for (const step::KvFormat format : kKvFormats) {
    const std::size_t tile = kernels::kv_tile(format, kHeadDim).bytes;
    append.kv = {reinterpret_cast<std::byte*>(out), tile * kKvHeads, tile, format};
    add(format == step::KvFormat::kInt8 ? "kv_append-int8" : "kv_append",
        table.kv_append,
        append,
        kernels::kv_append_tiles(append));
  }
}

Result<std::vector<Case>> cases_of(const Options& options,
                                   Products& products,
                                   Attention& attention,
                                   const kernels::KernelTable& table,
                                   Scratch& scratch) {
  PHALANX_TRY(const auto row_counts, parse_numbers("--rows", options.rows, 1, kMaxRows));
  std::vector<Case> cases;
  for (const std::string& kernel : split(options.kernels)) {
    if (kernel == "matmul") {
      for (const std::string& name : split(options.formats)) {
        const auto format = std::ranges::find(
            kernels::kWeightFormats, name, [](auto each) { return weight_format_name(each); });
        if (format == kernels::kWeightFormats.end()) {
          return invalid_argument("--format: expected a weight format, found \"" + name + "\"");
        }
        for (const std::uint32_t rows : row_counts) {
          products.add(cases, *format, rows, kHidden, kIntermediate, 1);
          products.add(cases, *format, rows, kIntermediate, kHidden, checkpoint::kMlpRuns);
        }
      }
    } else if (kernel == "attention") {
      for (const auto& [sequences, rows, context] : {std::tuple{1U, 512U, 512U},
                                                     std::tuple{1U, 1U, 128U},
                                                     std::tuple{16U, 1U, 132U},
                                                     std::tuple{1U, 1U, 8192U}}) {
        for (const step::KvFormat kv_format : kKvFormats) {
          attention.add(cases, kv_format, sequences, rows, context);
        }
      }
    } else if (kernel == "rows") {
      add_row_kernels(cases, table, scratch);
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
  std::vector<double> seconds = one.seconds;
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2];
  std::printf(
      "{\"bench\":\"kernel_bench\",\"isa\":\"%s\",%s,\"us\":%.4g,\"us_min\":%.4g,\"us_max\":%.4g,"
      "\"gop_per_s\":%.4g,\"gb_per_s\":%.4g,%s}\n",
      isa.c_str(),
      one.name.c_str(),
      median * 1e6,
      seconds.front() * 1e6,
      seconds.back() * 1e6,
      one.operations / median / kGiga,
      one.bytes / median / kGiga,
      machine.c_str());
  std::fprintf(stderr,
               "%-40s %10.1f us (%.1f-%.1f) %8.1f GOP/s %6.2f GB/s\n",
               one.row.c_str(),
               median * 1e6,
               seconds.front() * 1e6,
               seconds.back() * 1e6,
               one.operations / median / kGiga,
               one.bytes / median / kGiga);
}

Status measure(const Options& options) {
  const std::string machine = machine_json();
  PHALANX_TRY(const kernels::Isa isa, kernels::resolve_isa(options.isa));
  const kernels::KernelTable& table = kernels::kernel_table(isa);
  PHALANX_TRY(Scratch scratch, make_scratch());
  Products products(table, scratch);
  Attention attention(table, scratch);
  PHALANX_TRY(std::vector<Case> cases, cases_of(options, products, attention, table, scratch));
  const kernels::FloatModeScope mode;
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
