// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::desk {

// What was told of a request, so that it can be told again as it was: 16 bytes a token, and what
// only few requests ask for beside them. It grows without moving what it has.
//
// Threads: one.
class EventLog {
 public:
  // Of one request: the key is not kept. Prompt and choice are below wire::kMaxFrontPrompts and
  // wire::kMaxFrontChoices. Every event of a choice tells the same cached tokens; at most one event
  // is an error, and tells none.
  void append(const wire::FrontEvent& event);

  [[nodiscard]] std::size_t size() const { return size_; }

  // Frees about so many events, the last ones first. True: there are more. A log that is given up
  // this way may be asked for nothing else.
  [[nodiscard]] bool shrink(std::size_t events);

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

  static constexpr std::size_t kChunkEvents = 256;
  struct Chunk {
    std::vector<Entry> entries;            // kChunkEvents, but in the last one
    std::vector<step::TokenLogprob> tops;  // of the first entry, then of the next one …
    std::vector<std::uint16_t> top_ends;   // … each up to here; as many as entries, or none
  };
  static_assert(kChunkEvents * step::kMaxTopLogprobs <= UINT16_MAX);

  [[nodiscard]] const Entry& at(std::size_t index) const {
    return chunks_[index / kChunkEvents].entries[index % kChunkEvents];
  }
  [[nodiscard]] std::span<const step::TokenLogprob> tops_of(std::size_t index) const;
  [[nodiscard]] std::uint32_t cached_tokens(const Entry& entry) const;

  std::deque<Chunk> chunks_;
  std::size_t size_ = 0;
  std::map<std::pair<std::uint8_t, std::uint8_t>, std::uint32_t>
      cached_tokens_;  // by prompt and choice; else 0
  std::uint32_t error_code_ = 0;
  std::string error_message_;
};

}  // namespace phalanx::desk
