// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "phalanx/checkpoint/config.h"
#include "phalanx/step/item.h"
#include "phalanx/step/limits.h"

namespace phalanx::bench {

// What a machine does in a second at most, by all threads together.
struct Peaks {
  double read_bytes = 0.0;  // from memory
  double fma_flops = 0.0;   // fp32, of vectors; one fma is two
  double int8_ops = 0.0;  // of integer products with 8-bit weights; one product and addition is two
  double int4_ops = 0.0;  // the same with 4-bit weights
  double bf16_flops = 0.0;  // of products of bf16; one product and addition is two
};

// What a step cannot do without, whoever computes it.
struct Work {
  double read_bytes = 0.0;
  double fma_flops = 0.0;
  double int8_ops = 0.0;
  double int4_ops = 0.0;
  double bf16_flops = 0.0;
};

// Counts: every matrix read once, the head only where an item samples; keys and values of earlier
// steps read once; products and attention. A group of integers takes a conversion and an fma for
// each output, and both count as an fma; so does its minimum, where it has one. Scores over a KV
// cache of codes are products of 8 bits in groups of 32, sums of values fmas in any format.
// Everything else (norms, exponentials, coding, sampling, sums over ranks) counts as nothing, so
// that the limit is one for any implementation of the format.
// The number of ranks changes nothing: they share all of it.
[[nodiscard]] Work work_of(const checkpoint::ModelConfig& config,
                           std::span<const step::StepItem> items,
                           step::KvFormat kv_format);

struct Limit {
  double seconds = 0.0;  // no step of that work takes less
  bool by_reading = false;
};

// The larger of the times of reading and of computing: at best they overlap completely.
[[nodiscard]] Limit limit_of(const Work& work, const Peaks& peaks);

}  // namespace phalanx::bench
