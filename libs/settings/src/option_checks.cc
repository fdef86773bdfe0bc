// SPDX-License-Identifier: Apache-2.0
#include "option_checks.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/printable.h"
#include "phalanx/base/split_list.h"
#include "phalanx/wire/limits.h"

namespace phalanx::settings {

namespace {

Status check_length(const char* option, const std::string& text, std::size_t bytes_max) {
  if (text.size() > bytes_max) {
    return invalid_argument(std::string(option) + ": expected at most " +
                            std::to_string(bytes_max) + " bytes, found " +
                            std::to_string(text.size()));
  }
  return ok();
}

// A list of nothing would be taken for one that is not given, which allows more than any list.
Status check_list(const char* option, const std::string& list) {
  const bool is_quoted = list.find_first_of("\"'") != std::string::npos;  // a list of JSON
  if (is_quoted || (!list.empty() && split_list(list).empty())) {
    return invalid_argument(std::string(option) + ": expected names separated by commas, found \"" +
                            printable(list) + "\"");
  }
  return check_length(option, list, wire::kMaxListBytes);
}

// They stand in answers of JSON, metrics and lines for a terminal.
Status check_names(const std::string& names) {
  PHALANX_RETURN_IF_ERROR(check_length("--served-model-name", names, wire::kMaxNameBytes));
  if (const std::string shown = printable(names); shown != names) {
    return invalid_argument(
        "--served-model-name: expected UTF-8 without control characters, found \"" + shown + "\"");
  }
  std::vector<std::string> list = split_list(names);
  const auto commas = std::count(names.begin(), names.end(), ',');
  if (!names.empty() && list.size() != static_cast<std::size_t>(commas) + 1) {
    return invalid_argument("--served-model-name: expected names separated by commas, found \"" +
                            names + "\"");
  }
  std::sort(list.begin(), list.end());
  if (const auto twice = std::adjacent_find(list.begin(), list.end()); twice != list.end()) {
    return invalid_argument("--served-model-name: expected different names, found \"" + *twice +
                            "\" twice");
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
  if (wrapper.role == fleet::WorkerRole::kLoader && options.runner == "sim") {
    return invalid_argument("\"" + wrapper.text +
                            "\" selects no worker: with --runner sim no weights are loaded");
  }
  const auto program = fleet::find_program(wrapper.command.front());
  return program ? ok() : Status(program.error());
}

// What only a server heeds: its doors, clients and end.
constexpr const char* kServerFlags[] = {"allowed-hosts",
                                        "allowed-origins",
                                        "client-memory-bytes",
                                        "fronts",
                                        "host",
                                        "keep-alive-interval",
                                        "max-body-bytes",
                                        "max-connections",
                                        "max-connections-per-address",
                                        "max-num-queued-reqs",
                                        "max-num-queued-tokens",
                                        "port",
                                        "shutdown-timeout",
                                        "stream-buffer-bytes",
                                        "strict-api"};

// What a request sets for itself on a server.
Status check_prompt_flags(const Options& given) {
  if (!given.prompts.empty()) {
    return ok();
  }
  const Options unset;
  const auto needs_prompt = [](const std::string& flag, const std::string& instead) {
    return invalid_argument(flag + " is for --prompt, of which there is none: " + instead);
  };
  if (given.max_tokens != unset.max_tokens) {
    return needs_prompt("--max-tokens", "requests have max_tokens, and --max-model-len limits all");
  }
  if (given.temperature != unset.temperature) {
    return needs_prompt("--temperature", "requests have temperature");
  }
  if (given.seed != unset.seed) {
    return needs_prompt("--seed", "requests have seed");
  }
  if (given.apply_chat_template != unset.apply_chat_template) {
    return needs_prompt("--apply-chat-template", "/v1/chat/completions always applies it");
  }
  return ok();
}

}  // namespace

Status check_values(const Options& options) {
  PHALANX_RETURN_IF_ERROR(check_length("--model", options.model, wire::kMaxPathBytes));
  PHALANX_RETURN_IF_ERROR(
      check_length("--chat-template", options.chat_template_path, wire::kMaxPathBytes));
  PHALANX_RETURN_IF_ERROR(check_names(options.served_model_name));
  PHALANX_RETURN_IF_ERROR(check_prompt_flags(options));
  PHALANX_RETURN_IF_ERROR(check_list("--allowed-hosts", options.allowed_hosts));
  PHALANX_RETURN_IF_ERROR(check_list("--allowed-origins", options.allowed_origins));
  if (options.temperature < 0.0 && options.temperature != -1.0) {
    return invalid_argument("--temperature: expected -1 or a number from 0 to 2, found " +
                            std::to_string(options.temperature));
  }
  for (const fleet::WorkerWrapper& wrapper : options.wrappers) {
    if (Status status = check_wrapper(wrapper, options); !status) {
      return std::move(status).error().with("--worker-wrapper");
    }
  }
  return ok();
}

Status check_given(const Options& options, const std::vector<std::string>& given) {
  for (const char* const flag : kServerFlags) {
    const bool is_given = std::find(given.begin(), given.end(), flag) != given.end();
    if (is_given && !options.prompts.empty()) {
      return invalid_argument("--" + std::string(flag) +
                              " is for a server, and with --prompt none is started");
    }
  }
  return ok();
}

}  // namespace phalanx::settings
