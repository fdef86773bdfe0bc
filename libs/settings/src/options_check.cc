// SPDX-License-Identifier: Apache-2.0
#include "options_check.h"

#include <algorithm>
#include <string>
#include <utility>

#include "phalanx/base/utf8.h"
#include "phalanx/wire/limits.h"

namespace phalanx::settings {

namespace {

// Header of a request, and what is read with it.
constexpr std::int64_t kHeadBytes = std::int64_t{64} << 10;

// A list of nothing would allow what no list allows.
Status check_list(const char* flag, const std::string& list) {
  if (!list.empty() && split_list(list).empty()) {
    return invalid_argument(std::string(flag) +
                            ": expected names with commas between them, found \"" + list + "\"");
  }
  return ok();
}

// It stands in answers, and clients name it.
Status check_model_name(const std::string& name) {
  if (name.size() > wire::kMaxNameBytes) {
    return invalid_argument("--served-model-name: expected at most " +
                            std::to_string(wire::kMaxNameBytes) + " bytes, found " +
                            std::to_string(name.size()));
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (!is_valid_utf8(name) || std::any_of(name.begin(), name.end(), is_control)) {
    return invalid_argument(
        "--served-model-name: expected text in UTF-8 without control characters");
  }
  return ok();
}

Status check_texts(const Options& options) {
  PHALANX_RETURN_IF_ERROR(check_list("--allowed-hosts", options.allowed_hosts));
  PHALANX_RETURN_IF_ERROR(check_list("--allowed-origins", options.allowed_origins));
  PHALANX_RETURN_IF_ERROR(check_model_name(options.served_model_name));
  if (options.model.size() > wire::kMaxPathBytes) {
    return invalid_argument("--model: expected a path of at most " +
                            std::to_string(wire::kMaxPathBytes) + " bytes, found " +
                            std::to_string(options.model.size()));
  }
  return ok();
}

Status check_wrapper(const fleet::WorkerWrapper& wrapper, const Options& options) {
  const auto none = [&](const char* what, std::int64_t count) {
    return invalid_argument("\"" + wrapper.text + "\" selects no worker: there are " +
                            std::to_string(count) + " " + what + ", numbered from 0");
  };
  if (wrapper.replica && wrapper.replica->value() >= options.dp) {
    return none("replicas", options.dp);
  }
  if (wrapper.rank && wrapper.rank->value() >= options.tp) {
    return none("ranks in each replica", options.tp);
  }
  const auto program = fleet::find_program(wrapper.command.front());
  return program ? ok() : Status(program.error());
}

// What flags say together.
Status check_together(const Options& options) {
  if (options.runner != "sim" && (options.sim_step_us > 0 || options.sim_token_us > 0)) {
    return invalid_argument("--sim-step-us and --sim-token-us need --runner sim");
  }
  if (options.kv_cache_memory_bytes > 0 && options.num_kv_blocks > 0) {
    return invalid_argument(
        "--kv-cache-memory-bytes and --num-kv-blocks say the same: give one of them");
  }
  if (options.max_num_batched_tokens < options.max_num_seqs) {
    return invalid_argument("--max-num-batched-tokens: expected at least --max-num-seqs (" +
                            std::to_string(options.max_num_seqs) +
                            "), so that every sequence can decode in one step, found " +
                            std::to_string(options.max_num_batched_tokens));
  }
  const std::int64_t memory_needed = options.fronts * 4 * (options.max_body_bytes + kHeadBytes);
  if (options.client_memory_bytes < memory_needed) {
    return invalid_argument("--client-memory-bytes: expected at least " +
                            std::to_string(memory_needed) +
                            ", so that each front has room for bodies of --max-body-bytes, found " +
                            std::to_string(options.client_memory_bytes));
  }
  return ok();
}

}  // namespace

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string item = text.substr(begin, end - begin);
    std::erase(item, ' ');
    if (!item.empty()) {
      items.push_back(std::move(item));
    }
    begin = end + 1;
  }
  return items;
}

Status check_options(const Options& options) {
  PHALANX_RETURN_IF_ERROR(check_texts(options));
  if (options.temperature < 0.0 && options.temperature != -1.0) {
    return invalid_argument("--temperature: expected 0 to 2, or -1 for the model's default");
  }
  PHALANX_RETURN_IF_ERROR(check_together(options));
  for (const fleet::WorkerWrapper& wrapper : options.wrappers) {
    if (Status status = check_wrapper(wrapper, options); !status) {
      return std::move(status).error().with("--worker-wrapper");
    }
  }
  return ok();
}

}  // namespace phalanx::settings
