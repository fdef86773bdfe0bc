// SPDX-License-Identifier: Apache-2.0
// Records between the leader and the front that works for the prompts of a command line, besides
// those of front_messages.h. Contract: proto/leader-front.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace phalanx::wire {

// The keys of their requests have connections from here on: of the first prompt, the second, …
inline constexpr std::uint64_t kFirstPromptConnection = std::uint64_t{1} << 63U;

// ---- leader → front

// The next part of the next prompt.
struct PromptText {
  std::string text{};  // at most kMaxPromptTextBytes
  bool last = true;    // of this prompt
  friend bool operator==(const PromptText&, const PromptText&) = default;
};

// All prompts have come: they are to be generated for, in this way.
struct RunPrompts {
  bool apply_chat_template = true;  // if the model has one
  std::uint32_t max_tokens = 1;
  std::optional<float> temperature{};  // none: the model's own default
  bool is_seeded = false;              // false: a seed is drawn
  std::int64_t seed = 0;
  friend bool operator==(const RunPrompts&, const RunPrompts&) = default;
};

// ---- front → leader

// The next part of what the prompts give, for standard output: opaque bytes.
struct PromptsOutput {
  std::string text{};  // at most kMaxPromptTextBytes
  friend bool operator==(const PromptsOutput&, const PromptsOutput&) = default;
};

// The prompts are answered and their output is complete; or they cannot be.
struct PromptsEnd {
  std::uint32_t code = 0;  // 0: answered; else a phalanx::Code: why not
  std::string message{};
  friend bool operator==(const PromptsEnd&, const PromptsEnd&) = default;
};

}  // namespace phalanx::wire
