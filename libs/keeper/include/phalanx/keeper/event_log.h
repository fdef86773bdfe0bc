// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/step/sampling.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::keeper {

// What was told of a request, so that it can be told again as it was: 16 bytes a token, and what
// only few requests ask for beside them.
//
// Threads: one.
class EventLog {
 public:
  // Of one request: the key is not kept. Prompt and choice are below wire::kMaxFrontPrompts and
  // wire::kMaxFrontChoices. Every event of a choice tells the same cached tokens; at most one event
  // is an error, and tells none.
  void append(const wire::FrontEvent& event);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

  // The event that was appended as number `index` (from 0), which there is.
  [[nodiscard]] wire::FrontEvent event(std::size_t index, const wire::RequestKey& key) const;

  // As many of the events from `begin` on, up to `end`, as one record may hold, without an error.
  [[nodiscard]] wire::History history(std::size_t begin,
                                      std::size_t end,
                                      const wire::RequestKey& key) const;

 private:
  struct Entry {
    std::int32_t token = 0;
    std::uint32_t position = 0;
    float logprob = 0;
    std::uint8_t prompt = 0;
    std::uint8_t choice = 0;
    step::FinishReason finish = step::FinishReason::kNone;
    bool has_logprob = false;
  };
  static_assert(sizeof(Entry) == 16);

  [[nodiscard]] std::uint32_t cached_tokens(const Entry& entry) const;

  std::vector<Entry> entries_;
  std::map<std::pair<std::uint8_t, std::uint8_t>, std::uint32_t>
      cached_tokens_;  // by prompt and choice; else 0
  std::map<std::size_t, std::vector<step::TokenLogprob>> top_logprobs_;  // by event; else none
  std::uint32_t error_code_ = 0;
  std::string error_message_;
};

}  // namespace phalanx::keeper
