// SPDX-License-Identifier: Apache-2.0
// What the limits of this process (ulimit) leave a server, found out before anything is started:
// past a limit, libraries abort and clients wait for connections that nobody can accept.
#pragma once

#include <cstdint>

#include "phalanx/base/result.h"
#include "phalanx/os/machine.h"
#include "phalanx/settings/options.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::settings {

// Every process maps libraries, stacks of threads and heaps beside the memory of the plan.
inline constexpr std::uint64_t kAddressSpaceBytes = std::uint64_t{1} << 30;
// Threads of a process without a limit have as much; no part needs more.
inline constexpr std::uint64_t kStackBytes = std::uint64_t{2} << 20;
// What processes share by files in memory before the size of a model is known; no model has less.
inline constexpr std::uint64_t kFileBytes = std::uint64_t{1} << 20;
// Fewer are no server.
inline constexpr std::uint64_t kLeastConnections = 8;

// Descriptors that the leader, or a replica if it needs more, has open without any client that it
// serves; those that it tells that there is no room are among them.
[[nodiscard]] std::uint64_t descriptors_without_clients(const Options& options);

// Checks what can be known before a model is read. Lowers options->max_connections to what the
// limit of open files leaves, and then says so in the log.
//
// Errors: kResourceExhausted naming the limit, the need and the command that raises it.
[[nodiscard]] Status apply_limits(const os::ProcessLimits& limits, Options* options);

// Checks that a rank may map its memory and the weights, and the loader the weights and the files
// that they are packed from, and that the files in memory may be as large.
// Errors: as apply_limits().
[[nodiscard]] Status check_plan_fits(const os::ProcessLimits& limits, const wire::ServerPlan& plan);

}  // namespace phalanx::settings
