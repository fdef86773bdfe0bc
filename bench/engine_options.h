// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "phalanx/flags/flag_table.h"
#include "phalanx/step/choices.h"

namespace phalanx::bench {

// What engine_bench is asked for. The help of each stands in flags_of(); lists have commas.
struct Options {
  std::string model;
  std::string formats = "bf16,int8,int8-g32,int4";
  std::string tp = "1";
  std::string prompts = "128,512";
  std::string batches = "1,16";
  std::string contexts = "128,8192";
  std::string kv_cache_dtype = "bf16";
  std::string isa = "auto";
  std::int64_t threads = 0;
  std::int64_t rounds = 5;
  std::int64_t steps = 8;
  std::int64_t chunk = step::kDefaultMaxNumBatchedTokens;
  std::int64_t layers = 0;  // of Qwen3-0.6B; 0: all
  bool only_limits = false;
};

// The table that fills `options`, which must outlive it.
[[nodiscard]] flags::FlagTable flags_of(Options* options);

}  // namespace phalanx::bench
