// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace phalanx::bench {

// What a figure was measured on, as the members of a JSON object: cpu, cores, kernel, load,
// version, and commit of the checkout that the program lies in, empty if it lies in none. To be
// asked before anything is measured, since the load is that of now.
[[nodiscard]] std::string machine_json();

// "p50_us", "p99_us", "max_us" and "count" of the samples, as the members of a JSON object. Sorts
// them. Requires at least one.
[[nodiscard]] std::string percentiles_json(std::vector<std::uint64_t>& nanoseconds);

}  // namespace phalanx::bench
