// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace phalanx::step {

// Tokens of one KV block. Fixed by the arithmetic (docs/arithmetic.md): it is the attention block.
inline constexpr std::uint32_t kBlockTokens = 32;

[[nodiscard]] constexpr std::uint32_t blocks_for(std::uint32_t tokens) {
  return tokens / kBlockTokens + (tokens % kBlockTokens != 0 ? 1U : 0U);
}

// How the KV cache holds keys and values. The numbers are those of the wire.
enum class KvFormat : std::uint8_t {
  kBf16 = 1,
  kInt8 = 2,  // codes with scales: docs/arithmetic.md, "KV cache of integers"
};

// What one replica and each of its ranks are prepared for.
struct RankLimits {
  std::uint32_t max_model_len = 0;           // tokens of one sequence, prompt and produced
  std::uint32_t max_num_seqs = 0;            // items of one step, and slots
  std::uint32_t max_num_batched_tokens = 0;  // rows of one step
  std::uint32_t kv_blocks = 0;
  KvFormat kv_format = KvFormat::kBf16;

  friend bool operator==(const RankLimits&, const RankLimits&) = default;
};

// Beyond these nothing is accepted, whatever was asked for.
inline constexpr std::size_t kMaxPromptTokens = std::size_t{1} << 20;
inline constexpr std::uint32_t kMaxSequencesPerStep = 4096;
inline constexpr std::uint32_t kMaxRowsPerStep = 1U << 16;
inline constexpr std::uint32_t kMaxKvBlocks = 1U << 24;  // of one replica
inline constexpr std::size_t kMaxBlocksPerSequence = std::size_t{1} << 16;
inline constexpr std::size_t kMaxTopLogprobs = 20;
inline constexpr std::size_t kMaxLogitBias = 1024;
inline constexpr std::size_t kMaxRequestStopTokens = 128;  // stop_token_ids of a request
inline constexpr std::size_t kMaxEndTokens = 64;           // end-of-sequence ids of a model
inline constexpr std::size_t kMaxStopTokens = kMaxRequestStopTokens + kMaxEndTokens;

}  // namespace phalanx::step
