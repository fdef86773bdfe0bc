// SPDX-License-Identifier: Apache-2.0
// What happens to the requests of fronts, as the leader tells it: proto/leader-front.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/limits.h"

namespace phalanx::wire {

// Names one HTTP request: connections and the requests of each are counted from 1.
struct RequestKey {
  std::uint64_t connection = 0;
  std::uint32_t ordinal = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): as in phalanx/base/ids.h
  friend auto operator<=>(const RequestKey&, const RequestKey&) = default;
};

// What happened to a generation: one token of a choice, or with `finish` kError its request's end.
struct FrontEvent {
  RequestKey key{};
  std::uint32_t prompt = 0;    // as numbered by the front; 0 with an error
  std::uint32_t choice = 0;    // of the prompt
  std::uint32_t position = 0;  // of the token in its choice
  TokenId token = 0;
  std::optional<float> logprob{};
  std::vector<step::TokenLogprob> top_logprobs{};         // likeliest first
  std::uint32_t cached_tokens = 0;                        // of the prompt, not computed
  step::FinishReason finish = step::FinishReason::kNone;  // kStop, kLength: the choice's last token
  std::uint32_t error_code = 0;                           // a phalanx::Code, with kError
  std::string error_message{};
  friend bool operator==(const FrontEvent&, const FrontEvent&) = default;
};

// In the order in which they happened. Whoever sends them keeps a record within the socket's bound
// of bytes: so many large ones would exceed it.
struct FrontEvents {
  std::vector<FrontEvent> events{};  // at most kMaxFrontEvents
  friend bool operator==(const FrontEvents&, const FrontEvents&) = default;
};

// What an event says besides its token, in a word.
struct HistoryMark {
  std::uint32_t prompt = 0;
  std::uint32_t choice = 0;
  step::FinishReason finish = step::FinishReason::kNone;

  [[nodiscard]] std::uint32_t packed() const {
    return prompt << 16U | choice << 8U | static_cast<std::uint32_t>(finish);
  }
  [[nodiscard]] static HistoryMark of(std::uint32_t word) {
    return {word >> 16U, word >> 8U & 0xFFU, static_cast<step::FinishReason>(word & 0xFFU)};
  }
};
static_assert(kMaxFrontPrompts <= 1U << 16U && kMaxFrontChoices <= 1U << 8U);

// Events of a request that another front has been told, and has written: what the text behind them
// depends on, and no more. They are the first ones, in their order, without an error among them.
struct History {
  RequestKey key{};
  std::vector<std::uint32_t> marks{};  // of each event, HistoryMark::packed()
  std::vector<TokenId> tokens{};       // of each event
  // Of those at position 0 of choice 0 of a prompt, in their order.
  std::vector<std::uint32_t> cached_tokens{};

  // How many events from that one on have the same mark.
  [[nodiscard]] std::size_t equal_marks(std::size_t from) const {
    std::size_t end = from;
    while (end < marks.size() && marks[end] == marks[from]) {
      ++end;
    }
    return end - from;
  }
  friend bool operator==(const History&, const History&) = default;
};

}  // namespace phalanx::wire
