// SPDX-License-Identifier: Apache-2.0
#include "inspect.h"

#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "phalanx/checkpoint/inspect.h"
#include "phalanx/engine/scheduler_options.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/model/needs.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/os/machine.h"

#include "inspect_view.h"

namespace phalanx::app {

namespace {

// What a replica would refuse of the limits that memory leaves.
Status check_limits(const step::RankLimits& limits, std::uint32_t vocab) {
  engine::SchedulerOptions scheduler;
  scheduler.limits = limits;
  scheduler.vocab_size = vocab;
  return engine::validate(scheduler);
}

model::MemoryRequest memory_request_of(const CtlOptions& options) {
  model::MemoryRequest request;
  request.replicas = static_cast<std::uint32_t>(options.dp);
  request.ranks = static_cast<std::uint32_t>(options.tp);
  request.cpus = static_cast<std::uint32_t>(os::allowed_cpus().size());
  request.limits.max_model_len = static_cast<std::uint32_t>(options.max_model_len);
  request.limits.max_num_seqs = static_cast<std::uint32_t>(options.max_num_seqs);
  request.limits.max_num_batched_tokens =
      static_cast<std::uint32_t>(options.max_num_batched_tokens);
  request.limits.kv_blocks = static_cast<std::uint32_t>(options.num_kv_blocks);
  request.kv_memory_bytes = static_cast<std::uint64_t>(options.kv_cache_memory_bytes);
  request.limits.kv_format = step::kv_format_of(options.kv_cache_dtype);
  return request;
}

}  // namespace

Status inspect(const CtlOptions& options) {
  if (options.argument.empty()) {
    return invalid_argument("inspect: expected the path of a model, found none");
  }
  if (options.max_num_batched_tokens < options.max_num_seqs) {
    return invalid_argument("--max-num-batched-tokens: expected at least --max-num-seqs (" +
                            std::to_string(options.max_num_seqs) + "), found " +
                            std::to_string(options.max_num_batched_tokens));
  }
  model::MemoryRequest request = memory_request_of(options);
  PHALANX_TRY(const std::uint64_t available, os::available_memory_bytes());
  PHALANX_TRY(checkpoint::Inspection found,
              checkpoint::inspect(options.argument, options.quantization));
  if (found.config) {
    request.available_bytes = model::memory_to_plan(available, *found.config, request);
  }
  const std::optional<model::MemoryPlan> memory = model::needs_of(found, request);
  if (memory) {
    if (Status status = check_limits(memory->limits, found.config->vocab); !status) {
      found.obstacles.push_back({"limits", std::move(status).error()});
    }
  }
  std::cout << (options.json ? inspection_json(found, memory, request) + "\n"
                             : inspection_text(found, memory, request));
  if (!found.obstacles.empty()) {
    const checkpoint::Obstacle& first = found.obstacles.front();
    return Error(first.error).with(first.part);
  }
  return ok();
}

}  // namespace phalanx::app
