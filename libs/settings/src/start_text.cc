// SPDX-License-Identifier: Apache-2.0
#include "phalanx/settings/start_text.h"

#include <sstream>

#include "phalanx/base/bytes_text.h"
#include "phalanx/base/printable.h"
#include "phalanx/base/version.h"
#include "phalanx/step/choices.h"

namespace phalanx::settings {

namespace {

std::string cores_text(const std::vector<os::CpuList>& rank_cpus) {
  const bool pinned = !rank_cpus.front().empty();
  return pinned ? "cores " + os::format_core_sets(rank_cpus)
                : "one thread each, not pinned: there are fewer cores";
}

// "1 rank", "2 ranks"
std::string counted(std::int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// For a string of JSON between single quotes of a shell. Nothing in it moves the cursor.
std::string quoted(const std::string& name) {
  std::string text;
  for (const char byte : printable(name)) {
    if (byte == '\'') {
      text += "'\\''";
    } else {
      text += byte == '"' || byte == '\\' ? std::string{'\\', byte} : std::string{byte};
    }
  }
  return text;
}

}  // namespace

std::string start_summary(const Options& options, const LeaderPlan& plan) {
  const wire::ServerPlan& made = plan.made;
  std::ostringstream out;
  out << "phalanxd " << kVersion << "\n";
  out << "  model      " << printable(plan.model_name);
  for (const std::string& alias : plan.model_aliases) {
    out << ", " << printable(alias);
  }
  out << " (" << printable(made.model_summary) << ")\n";
  out << "  topology   " << counted(options.dp, "replica") << " × " << counted(options.tp, "rank")
      << ", " << cores_text(plan.rank_cpus) << ", routing " << options.routing_policy << "\n";
  out << "  kernels    "
      << (is_simulated(options)
              ? "none: simulated"
              : printable(made.isa) + ", weights " + printable(made.weight_summary) +
                    ", KV cache " + std::string(step::kv_format_name(made.limits.kv_format)))
      << "\n";
  out << "  limits     " << made.limits.max_model_len << " tokens of context, "
      << counted(made.limits.max_num_seqs, "sequence") << " and "
      << counted(made.limits.max_num_batched_tokens, "token") << " a step, "
      << counted(made.limits.kv_blocks, "KV block") << " of 32 tokens per replica\n";
  for (const fleet::WorkerWrapper& wrapper : options.wrappers) {
    out << "  wrapped    " << wrapper.text << "; never called hung\n";
  }
  if (!is_simulated(options)) {
    for (const auto& [what, bytes] : made.memory) {
      out << "  memory     " << printable(what) << ": " << bytes_text(bytes) << "\n";
    }
  }
  return out.str();
}

std::string ready_text(const Options& options, std::uint16_t port, const std::string& model) {
  const bool is_ipv6 =
      options.host.find(':') != std::string::npos && !options.host.starts_with('[');
  const std::string host = is_ipv6 ? "[" + options.host + "]" : options.host;
  const std::string url = "http://" + host + ":" + std::to_string(port);
  return "ready " + url + "\ntry: curl " + url +
         "/v1/chat/completions -H 'content-type: application/json' -d '{\"model\": \"" +
         quoted(model) +
         "\", \"messages\": [{\"role\": \"user\", \"content\": \"count from 3 to 40\"}]}'\n";
}

}  // namespace phalanx::settings
