// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/flags/flag_table.h"
#include "phalanx/step/choices.h"

namespace phalanx::app {

struct CtlOptions {
  std::vector<std::string> words;  // the command and its argument, as given
  std::vector<std::string> flags;  // on the command line
  std::string command = "status";
  std::string argument;  // of the command: a replica, or a path
  std::int64_t port = 8000;
  std::int64_t uid = static_cast<std::int64_t>(::geteuid());
  bool json = false;
  bool fronts = false;
  bool watch = false;
  bool wait = false;
  double interval_s = 1.0;
  double timeout_s = 10.0;
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t max_model_len = 0;
  std::int64_t max_num_seqs = step::kDefaultMaxNumSeqs;
  std::int64_t max_num_batched_tokens = step::kDefaultMaxNumBatchedTokens;
  std::int64_t kv_cache_memory_bytes = 0;
  std::int64_t num_kv_blocks = 0;
  std::string kv_cache_dtype = "bf16";
  std::string quantization = "auto";
};

// Binds the flags to `options`, which must outlive the table.
[[nodiscard]] flags::FlagTable make_table(CtlOptions* options);

// What would be ignored was meant for something: flags that have no effect on the command, and an
// argument that it does not take. A command that is not known is left to whoever runs it.
[[nodiscard]] Status check(const CtlOptions& options);

}  // namespace phalanx::app
