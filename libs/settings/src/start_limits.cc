// SPDX-License-Identifier: Apache-2.0
#include "phalanx/settings/start_limits.h"

#include <algorithm>
#include <string>

#include "phalanx/base/bytes_text.h"
#include "phalanx/keeper/doors.h"
#include "phalanx/obs/log.h"

namespace phalanx::settings {

namespace {

// The standard three, the event loop, ZeroMQ, listening sockets, pipes, files that are read for a
// moment.
constexpr std::uint64_t kDescriptors = 64;
constexpr std::uint64_t kStandardDescriptors = 3;
// Process, control socket, pipe, frame channel and shared memory of a replica, a rank or a front.
constexpr std::uint64_t kDescriptorsPerChild = 12;

constexpr std::uint64_t kKibibyte = 1024;

Error below(const char* option,
            const std::string& limit,
            const std::string& need,
            const std::string& value) {
  return resource_exhausted("the limit of this process (ulimit " + std::string(option) + ") is " +
                            limit + " and " + need + ": raise it with ulimit " + option + " " +
                            value);
}

Error below_bytes(const char* option,
                  const std::string& what,
                  std::uint64_t limit,
                  std::uint64_t need) {
  return below(option,
               bytes_text(limit) + " of " + what,
               bytes_text(need) + " are needed",
               std::to_string((need + kKibibyte - 1) / kKibibyte) + " or unlimited");
}

}  // namespace

std::uint64_t descriptors_without_clients(const Options& options) {
  const std::int64_t fronts = options.fronts + 2;  // a spare one, and one for suspects
  const bool listens = options.prompts.empty();
  return kDescriptors + (listens ? keeper::Doors::kMaxRefused : 0) +
         kDescriptorsPerChild *
             static_cast<std::uint64_t>(std::max(options.dp + fronts, options.tp));
}

Status apply_limits(const os::ProcessLimits& limits, Options* options) {
  if (limits.stack_bytes < kStackBytes) {
    return below_bytes("-s", "stack", limits.stack_bytes, kStackBytes);
  }
  if (limits.address_space_bytes < kAddressSpaceBytes) {
    return below_bytes("-v", "address space", limits.address_space_bytes, kAddressSpaceBytes);
  }
  if (limits.file_bytes < kFileBytes) {
    return below_bytes("-f", "file size", limits.file_bytes, kFileBytes);
  }
  // What whoever started the program left open takes places as well.
  const std::uint64_t inherited =
      limits.files_in_use - std::min(limits.files_in_use, kStandardDescriptors);
  const std::uint64_t own = descriptors_without_clients(*options) + inherited;
  const bool listens = options->prompts.empty();
  const auto asked = listens ? static_cast<std::uint64_t>(options->max_connections) : 0;
  const std::uint64_t least = own + std::min(kLeastConnections, asked);
  if (limits.open_files < least) {
    return below("-n",
                 std::to_string(limits.open_files) + " open files",
                 std::to_string(least) + " are needed for " + std::to_string(options->dp) + " × " +
                     std::to_string(options->tp) + " processes and " + std::to_string(least - own) +
                     " connections",
                 std::to_string(own + asked));
  }
  if (limits.open_files - own < asked) {
    options->max_connections = static_cast<std::int64_t>(limits.open_files - own);
    obs::log_warn("max_connections_lowered",
                  {{"asked", asked},
                   {"max_connections", options->max_connections},
                   {"open_files", limits.open_files},
                   {"hint", "ulimit -n " + std::to_string(own + asked)}});
  }
  return ok();
}

Status check_plan_fits(const os::ProcessLimits& limits, const wire::ServerPlan& plan) {
  // The loader has the files, and a rank its memory, beside the weights.
  const std::uint64_t mapped =
      kAddressSpaceBytes + plan.weight_bytes + std::max(plan.file_bytes, plan.rank_bytes);
  if (limits.address_space_bytes < mapped) {
    return below_bytes("-v", "address space", limits.address_space_bytes, mapped);
  }
  const std::uint64_t file = std::max(plan.weight_bytes, plan.rank_bytes);
  if (limits.file_bytes < file) {
    return below_bytes("-f", "file size", limits.file_bytes, file);
  }
  return ok();
}

}  // namespace phalanx::settings
