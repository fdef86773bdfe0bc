// SPDX-License-Identifier: Apache-2.0
// What a server is asked for in words and numbers, before anybody has read its model: options are
// made from this, and those who compute take it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/step/limits.h"

namespace phalanx::step {

// What --max-num-seqs and --max-num-batched-tokens are unless said otherwise.
inline constexpr std::uint32_t kDefaultMaxNumSeqs = 64;
inline constexpr std::uint32_t kDefaultMaxNumBatchedTokens = 512;

// What --kv-cache-dtype takes, in the words of kv_format_name() and those that other servers have
// for the same.
[[nodiscard]] std::vector<std::string> kv_format_choices();
// Requires one of kv_format_choices().
[[nodiscard]] KvFormat kv_format_of(std::string_view choice);
[[nodiscard]] std::string_view kv_format_name(KvFormat format);  // "bf16", "int8"

// What a rank computes with. kSim has no weights and computes nothing: it keeps the whole protocol
// and sleeps for a modelled time.
enum class Runner : std::uint8_t { kCpu = 1, kSim = 2 };

// What --runner takes: "cpu", "sim".
[[nodiscard]] std::vector<std::string> runner_choices();
// Requires one of runner_choices().
[[nodiscard]] Runner runner_of(std::string_view choice);

// The weight formats that are made of any numbers, as kernels/weight.h calls them.
inline constexpr std::array<std::string_view, 4> kQuantizations = {
    "bf16", "int8", "int8-g32", "int4"};
// What the files have already.
inline constexpr std::string_view kAutoQuantization = "auto";

// What --quantization takes: kAutoQuantization and kQuantizations.
[[nodiscard]] std::vector<std::string> quantization_choices();

}  // namespace phalanx::step
