// SPDX-License-Identifier: Apache-2.0
// What the machine and the kernel grant this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "phalanx/base/result.h"

namespace phalanx::os {

// What this process could still allocate without swapping: MemAvailable, cut to what the memory
// cgroups above it leave.
[[nodiscard]] Result<std::uint64_t> available_memory_bytes();

// How many processes of this process's memory cgroup and those below it the kernel has killed
// because memory ran out. Nothing if it does not count them. Reads a small file.
[[nodiscard]] std::optional<std::uint64_t> out_of_memory_kills();

// Raises the soft limit of open descriptors to the hard one and returns it.
[[nodiscard]] Result<std::uint64_t> raise_open_file_limit();

// From now on neither this process nor a child of its own can gain rights by running a program
// (no_new_privs), and without `core_dumps` none of them leaves a core: the limit of a core becomes
// one byte, which the kernel takes as "none" for programs that are given cores through a pipe, too.
// With `core_dumps` the limit stays what it is.
[[nodiscard]] Status restrict_process(bool core_dumps);

// Limits of this process (ulimit), those in force; UINT64_MAX where there is none.
struct ProcessLimits {
  std::uint64_t open_files = UINT64_MAX;
  std::uint64_t address_space_bytes = UINT64_MAX;
  std::uint64_t stack_bytes = UINT64_MAX;
  std::uint64_t file_bytes = UINT64_MAX;  // of one file, in memory too
  std::uint64_t files_in_use = 0;         // of open_files, at this moment
};
[[nodiscard]] Result<ProcessLimits> process_limits();

// Descriptors that this process has open.
[[nodiscard]] std::size_t open_descriptors();

// Unpredictable bytes of the kernel, for seeds, boots and secrets.
void random_bytes(std::span<std::byte> out);
[[nodiscard]] std::uint64_t random_u64();

}  // namespace phalanx::os
