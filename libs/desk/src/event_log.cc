// SPDX-License-Identifier: Apache-2.0
#include "phalanx/desk/event_log.h"

#include <algorithm>

#include "phalanx/wire/limits.h"

namespace phalanx::desk {

// What an entry has room for.
static_assert(wire::kMaxFrontPrompts <= 256 && wire::kMaxFrontChoices <= 256);

void EventLog::append(const wire::FrontEvent& event) {
  Entry entry;
  entry.token = event.token;
  entry.position = event.position;
  entry.prompt = static_cast<std::uint8_t>(event.prompt);
  entry.choice = static_cast<std::uint8_t>(event.choice);
  entry.finish = event.finish;
  entry.has_logprob = event.logprob.has_value();
  entry.logprob = event.logprob.value_or(0);
  if (size_ % kChunkEvents == 0) {
    chunks_.emplace_back();
  }
  Chunk& chunk = chunks_.back();
  chunk.entries.push_back(entry);
  if (!event.top_logprobs.empty() || !chunk.top_ends.empty()) {
    chunk.tops.insert(chunk.tops.end(), event.top_logprobs.begin(), event.top_logprobs.end());
    chunk.top_ends.resize(chunk.entries.size() - 1);  // those before have none
    chunk.top_ends.push_back(static_cast<std::uint16_t>(chunk.tops.size()));
  }
  ++size_;
  if (event.cached_tokens > 0) {
    cached_tokens_.try_emplace({entry.prompt, entry.choice}, event.cached_tokens);
  }
  if (event.finish == step::FinishReason::kError) {
    error_code_ = event.error_code;
    error_message_ = event.error_message;
  }
}

bool EventLog::shrink(std::size_t events) {
  for (std::size_t freed = 0; freed < events && !chunks_.empty(); freed += kChunkEvents) {
    chunks_.pop_back();
  }
  return !chunks_.empty();
}

std::span<const step::TokenLogprob> EventLog::tops_of(std::size_t index) const {
  const Chunk& chunk = chunks_[index / kChunkEvents];
  const std::size_t place = index % kChunkEvents;
  if (chunk.top_ends.empty()) {
    return {};
  }
  const std::size_t begin = place == 0 ? 0 : chunk.top_ends[place - 1];
  return std::span(chunk.tops).subspan(begin, chunk.top_ends[place] - begin);
}

wire::FrontEvent EventLog::event(std::size_t index, const wire::RequestKey& key) const {
  const Entry& entry = at(index);
  wire::FrontEvent event;
  event.key = key;
  event.prompt = entry.prompt;
  event.choice = entry.choice;
  event.position = entry.position;
  event.token = entry.token;
  if (entry.has_logprob) {
    event.logprob = entry.logprob;
  }
  const std::span<const step::TokenLogprob> tops = tops_of(index);
  event.top_logprobs.assign(tops.begin(), tops.end());
  event.finish = entry.finish;
  if (entry.finish == step::FinishReason::kError) {
    event.error_code = error_code_;
    event.error_message = error_message_;
  } else {
    event.cached_tokens = cached_tokens(entry);
  }
  return event;
}

wire::History EventLog::history(std::size_t begin,
                                std::size_t end,
                                const wire::RequestKey& key) const {
  wire::History history{.key = key, .marks = {}, .tokens = {}, .cached_tokens = {}};
  end = std::min({end, size_, begin + wire::kMaxHistory});
  history.marks.reserve(end - begin);
  history.tokens.reserve(end - begin);
  for (std::size_t i = begin; i < end; ++i) {
    const Entry& entry = at(i);
    if (entry.finish == step::FinishReason::kError) {
      break;
    }
    history.marks.push_back(wire::HistoryMark{entry.prompt, entry.choice, entry.finish}.packed());
    history.tokens.push_back(entry.token);
    if (entry.position == 0 && entry.choice == 0) {
      history.cached_tokens.push_back(cached_tokens(entry));
    }
  }
  return history;
}

std::uint32_t EventLog::cached_tokens(const Entry& entry) const {
  const auto cached = cached_tokens_.find({entry.prompt, entry.choice});
  return cached == cached_tokens_.end() ? 0 : cached->second;
}

}  // namespace phalanx::desk
