// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::os {

// Logical CPUs by number, ascending, each once.
using CpuList = std::vector<std::uint32_t>;

// Reads core sets as given to --devices: sets separated by '|', in each numbers and ranges
// separated by ',': "0-1|2-3", "0,2,4-6|8". A CPU may stand in several sets; check_core_sets()
// judges that.
// Errors: kInvalidArgument naming the offending part.
[[nodiscard]] Result<std::vector<CpuList>> parse_core_sets(std::string_view text);

// "0-1,4", and sets joined by '|'.
[[nodiscard]] std::string format_cpus(const CpuList& cpus);
[[nodiscard]] std::string format_core_sets(const std::vector<CpuList>& sets);

// CPUs that this process may run on (affinity mask, so cpusets count).
[[nodiscard]] CpuList allowed_cpus();

// Whether explicit sets fit: one set per rank, no CPU twice, only allowed CPUs.
// Errors: kInvalidArgument naming count or CPU.
[[nodiscard]] Status check_core_sets(const std::vector<CpuList>& sets,
                                     std::size_t ranks,
                                     const CpuList& allowed);

// Restricts the calling thread (and threads it starts later) to `cpus`.
// Errors: kInvalidArgument if none of them exists for this process.
[[nodiscard]] Status pin_current_thread(const CpuList& cpus);

}  // namespace phalanx::os
