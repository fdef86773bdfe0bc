// SPDX-License-Identifier: Apache-2.0
#include "engine_limit.h"

#include <algorithm>
#include <cstddef>

#include "phalanx/kernels/layout.h"
#include "phalanx/kernels/weight.h"

namespace phalanx::bench {
namespace {

using kernels::WeightFormat;

// Conversion and fma, of two operations each, for a group of weights and one output; another fma
// for its minimum.
constexpr double kFlopsOfGroup = 4.0;
constexpr double kFlopsOfMinimum = 2.0;

void add_product(
    Work& work, WeightFormat format, std::size_t inputs, std::size_t outputs, double rows) {
  work.read_bytes += static_cast<double>(kernels::weight_bytes(format, inputs, outputs));
  const double products = rows * static_cast<double>(inputs) * static_cast<double>(outputs);
  if (format == WeightFormat::kBf16) {
    work.bf16_flops += 2 * products;
    return;
  }
  const kernels::WeightTraits& traits = kernels::traits_of(format);
  // Nibbles in groups of 16 and those that stand for codes are made bytes for many rows.
  const bool is_nibbles = traits.code_bits == 4 && traits.group != 16 && traits.table == nullptr;
  (is_nibbles ? work.int4_ops : work.int8_ops) += 2 * products;
  if (traits.group != 0) {
    const double of_group = kFlopsOfGroup + (traits.has_minima ? kFlopsOfMinimum : 0.0);
    work.fma_flops += of_group * products / static_cast<double>(traits.group);
  }
}

// Key and value of one KV head, without the padding that a layout may need.
double bytes_of_token(step::KvFormat format, std::uint32_t head_dim) {
  if (format == step::KvFormat::kBf16) {
    return 2.0 * sizeof(kernels::Bf16) * head_dim;
  }
  const std::size_t groups = kernels::padded_k(head_dim) / kernels::kDotBlock;
  return 2.0 * head_dim + static_cast<double>(groups * sizeof(tensor::F16)) + sizeof(kernels::Bf16);
}

// Rows of a step.
struct Rows {
  double count = 0;
  double read = 0;  // positions of earlier steps
  double seen = 0;  // positions that rows attend to

  void operator+=(const Rows& other) {
    count += other.count;
    read += other.read;
    seen += other.seen;
  }
};

// What a layer does with rows besides their keys and values.
void add_rows(Work& work,
              const checkpoint::ModelConfig& config,
              const checkpoint::LayerFormats& formats,
              const Rows& rows,
              step::KvFormat kv_format) {
  const std::size_t q = std::size_t{config.heads} * config.head_dim;
  add_product(work, formats.q, config.hidden, q, rows.count);
  add_product(work, formats.o, q, config.hidden, rows.count);
  add_product(work, formats.gate, config.hidden, config.intermediate, rows.count);
  add_product(work, formats.up, config.hidden, config.intermediate, rows.count);
  add_product(work, formats.down, config.intermediate, config.hidden, rows.count);
  work.read_bytes += rows.read * config.kv_heads * bytes_of_token(kv_format, config.head_dim);
  const double products = rows.seen * static_cast<double>(q);  // of scores, and of values
  if (kv_format == step::KvFormat::kInt8) {
    work.int8_ops += 2 * products;
    work.fma_flops += 2 * products + kFlopsOfGroup * products / kernels::kDotBlock;
  } else {
    work.bf16_flops += 4 * products;
  }
}

}  // namespace

Work work_of(const checkpoint::ModelConfig& config,
             std::span<const step::StepItem> items,
             step::KvFormat kv_format) {
  Rows all;
  Rows sampled;
  for (const step::StepItem& item : items) {
    const auto count = static_cast<double>(item.count);
    const auto start = static_cast<double>(item.start);
    all += {count, start, count * start + count * (count + 1) / 2};
    if (item.sample) {
      sampled += {1, start, start + count};
    }
  }
  const std::size_t kv = std::size_t{config.kv_heads} * config.head_dim;
  Work work;
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    const checkpoint::LayerFormats& formats = config.formats.layer(layer);
    add_product(work, formats.k, config.hidden, kv, all.count);
    add_product(work, formats.v, config.hidden, kv, all.count);
    // Behind keys and values of the last layer nobody reads the others.
    const Rows& rows = layer + 1 < config.layers ? all : sampled;
    if (rows.count > 0) {
      add_rows(work, config, formats, rows, kv_format);
    }
  }
  if (sampled.count > 0) {
    add_product(work, config.formats.head, config.hidden, config.vocab, sampled.count);
  }
  return work;
}

Limit limit_of(const Work& work, const Peaks& peaks) {
  const auto time = [](double amount, double rate) { return amount > 0 ? amount / rate : 0.0; };
  const double reading = time(work.read_bytes, peaks.read_bytes);
  const double computing =
      time(work.fma_flops, peaks.fma_flops) + time(work.int8_ops, peaks.int8_ops) +
      time(work.int4_ops, peaks.int4_ops) + time(work.bf16_flops, peaks.bf16_flops);
  return {std::max(reading, computing), reading > computing};
}

}  // namespace phalanx::bench
