// SPDX-License-Identifier: Apache-2.0
// The vocabulary of Qwen3, peaked as a trained model's (normal, and three tokens far above) and
// flat (normal alone, as of random weights). Selections are top_p 0.95: by four histograms of the
// logits, and by those of the list of what may be kept, where it fits.
#include "kernel_sampling.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <string>

#include "phalanx/base/philox.h"
#include "phalanx/kernels/vocab.h"

namespace phalanx::bench {
namespace {

using kernels::VocabKeep;

constexpr std::uint32_t kTokens = 151936;
constexpr std::uint32_t kListTokens = 4096;
constexpr float kTopP = 0.95F;
constexpr float kTemperature = 0.7F;

struct Row {
  std::vector<float> logits;
  std::vector<float> divided = std::vector<float>(kTokens);
  kernels::VocabPeak peak;
  kernels::VocabPeak drawn;
  VocabKeep counted;
  VocabKeep may_win;
  std::uint32_t listed = 0;  // key of the floor
  std::vector<float> list_logits = std::vector<float>(kListTokens);
  std::vector<TokenId> list_ids = std::vector<TokenId>(kListTokens);
  kernels::VocabList list{list_logits.data(), list_ids.data(), kListTokens, 0};
  kernels::VocabHistogram histogram;

  [[nodiscard]] kernels::VocabSlice slice() const { return {logits.data(), kTokens, 0}; }
};

std::vector<float> normal_logits() {
  std::vector<float> logits(kTokens);
  for (std::uint32_t i = 0; i < kTokens; ++i) {
    const auto words = philox4x32({i, 0, 0, 0}, {1, 2});
    const double radius = std::sqrt(-2.0 * std::log((words[0] + 0.5) * 0x1p-32));
    logits[i] = static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * words[1] * 0x1p-32));
  }
  return logits;
}

std::shared_ptr<Row> make_row(const kernels::KernelTable& table, bool is_peaked) {
  auto row = std::make_shared<Row>();
  row->logits = normal_logits();
  if (is_peaked) {
    for (const std::uint32_t token : {17U, 90001U, 151000U}) {
      row->logits[token] = 40.0F;
    }
  }
  table.vocab_max(row->slice(), &row->peak);
  const auto keep_from = [](float floor) {
    return VocabKeep{kernels::logit_key(floor), VocabKeep().last_tied_id};
  };
  row->counted = keep_from(kernels::mass_floor(row->peak.value));
  row->may_win = keep_from(kernels::noise_floor(row->peak.value));
  row->listed = kernels::logit_key(kernels::top_p_floor(row->peak.value, kTopP, kTokens));
  return row;
}

// The prefix and the target of the next pass.
void select(const kernels::VocabHistogram& histogram,
            int shift,
            std::uint32_t* prefix,
            std::int64_t* target) {
  std::uint32_t bucket = 255;
  while (histogram.mass[bucket] < *target && bucket > 0) {
    *target -= histogram.mass[bucket--];
  }
  *prefix |= bucket << shift;
}

void run_selection(const kernels::KernelTable& table, Row& row, bool uses_list) {
  std::int64_t unlisted = 0;
  const bool is_listed =
      uses_list &&
      table.vocab_list(
          {row.slice(), row.counted, row.listed, row.peak.value}, &row.list, &unlisted);
  std::uint32_t prefix = 0;
  std::int64_t target = 0;
  for (const int shift : {24, 16, 8, 0}) {
    row.histogram = {};
    row.histogram.mass[0] = shift == 24 && is_listed ? unlisted : 0;
    kernels::VocabHistogramArgs args{row.slice(), row.counted, row.peak.value, prefix, shift};
    if (is_listed) {
      args.slice = {row.list.logits, row.list.count, 0};
      args.keep = {};
    }
    table.vocab_histogram(args, &row.histogram);
    if (shift == 24) {
      std::int64_t total = 0;
      for (const std::int64_t mass : row.histogram.mass) {
        total += mass;
      }
      target = kernels::mass_target(kTopP, total);
    }
    select(row.histogram, shift, &prefix, &target);
  }
}

}  // namespace

void add_sampling_kernels(std::vector<Case>& cases, const kernels::KernelTable& table) {
  for (const bool is_peaked : {true, false}) {
    const std::string kind = is_peaked ? "peaked" : "flat";
    const std::shared_ptr<Row> row = make_row(table, is_peaked);
    const auto add = [&](const std::string& name, auto run) {
      Case sampling;
      sampling.name = "\"kernel\":\"" + name + "\",\"logits\":\"" + kind +
                      "\",\"tokens\":" + std::to_string(kTokens);
      sampling.row = name + " " + kind;
      sampling.run = [row, run](std::size_t turn) { run(*row, turn); };
      cases.push_back(std::move(sampling));
    };
    add("temperature", [&table](Row& of, std::size_t /*turn*/) {
      table.divide_by_temperature(of.logits.data(), of.divided.data(), kTokens, kTemperature);
    });
    add("vocab_max",
        [&table](Row& of, std::size_t /*turn*/) { table.vocab_max(of.slice(), &of.peak); });
    add("vocab_mass", [&table](Row& of, std::size_t /*turn*/) {
      of.histogram.mass[0] = table.vocab_mass(of.slice(), {}, of.peak.value);
    });
    add("vocab_histogram", [&table](Row& of, std::size_t /*turn*/) {
      table.vocab_histogram({of.slice(), of.counted, of.peak.value, 0, 24}, &of.histogram);
    });
    add("vocab_list", [&table](Row& of, std::size_t /*turn*/) {
      std::int64_t unlisted = 0;
      (void)table.vocab_list(
          {of.slice(), of.counted, of.listed, of.peak.value}, &of.list, &unlisted);
    });
    add("selection-scan",
        [&table](Row& of, std::size_t /*turn*/) { run_selection(table, of, false); });
    add("selection", [&table](Row& of, std::size_t /*turn*/) { run_selection(table, of, true); });
    add("gumbel_max", [&table](Row& of, std::size_t turn) {
      table.gumbel_max(of.slice(), of.may_win, {1, 0, static_cast<std::uint32_t>(turn)}, &of.drawn);
    });
    add("gumbel_max_of_list", [&table](Row& of, std::size_t turn) {
      table.gumbel_max_of_list(
          of.list, of.may_win, {1, 0, static_cast<std::uint32_t>(turn)}, &of.drawn);
    });
  }
}

}  // namespace phalanx::bench
