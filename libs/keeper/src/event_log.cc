// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/event_log.h"

#include <algorithm>

#include "phalanx/wire/limits.h"

namespace phalanx::keeper {

namespace {

static_assert(wire::kMaxFrontPrompts <= 256 && wire::kMaxFrontChoices <= 256);

constexpr std::uint8_t kHasLogprob = 1;
constexpr std::uint8_t kHasTops = 2;

std::uint32_t choice_of(std::uint32_t prompt, std::uint32_t choice) {
  return prompt << 8U | choice;
}

}  // namespace

void EventLog::append(const wire::FrontEvent& event) {
  const std::size_t index = entries_.size();
  Entry entry;
  entry.token = event.token;
  entry.position = event.position;
  entry.prompt = static_cast<std::uint8_t>(event.prompt);
  entry.choice = static_cast<std::uint8_t>(event.choice);
  entry.finish = event.finish;
  if (event.logprob) {
    entry.logprob = *event.logprob;
    entry.flags |= kHasLogprob;
  }
  if (!event.top_logprobs.empty()) {
    entry.flags |= kHasTops;
    tops_.push_back({index, top_logprobs_.size()});
    top_logprobs_.insert(top_logprobs_.end(), event.top_logprobs.begin(), event.top_logprobs.end());
  }
  const std::uint32_t choice = choice_of(entry.prompt, entry.choice);
  const auto cached = cached_tokens_.find(choice);
  if (event.cached_tokens != (cached == cached_tokens_.end() ? 0 : cached->second.back().value)) {
    cached_tokens_[choice].push_back({index, event.cached_tokens});
  }
  if (event.finish == step::FinishReason::kError) {
    error_code_ = event.error_code;
    error_message_ = event.error_message;
  }
  entries_.push_back(entry);
}

wire::FrontEvent EventLog::event(std::size_t index, const wire::RequestKey& key) const {
  const Entry& entry = entries_[index];
  wire::FrontEvent event;
  event.key = key;
  event.prompt = entry.prompt;
  event.choice = entry.choice;
  event.position = entry.position;
  event.token = entry.token;
  if ((entry.flags & kHasLogprob) != 0) {
    event.logprob = entry.logprob;
  }
  if ((entry.flags & kHasTops) != 0) {
    event.top_logprobs = top_logprobs(index);
  }
  event.cached_tokens = cached_tokens(index);
  event.finish = entry.finish;
  if (entry.finish == step::FinishReason::kError) {
    event.error_code = error_code_;
    event.error_message = error_message_;
  }
  return event;
}

wire::History EventLog::history(std::size_t begin,
                                std::size_t end,
                                const wire::RequestKey& key) const {
  wire::History history{.key = key, .marks = {}, .tokens = {}, .cached_tokens = {}};
  end = std::min({end, entries_.size(), begin + wire::kMaxHistory});
  for (std::size_t i = begin; i < end; ++i) {
    const Entry& entry = entries_[i];
    if (entry.finish == step::FinishReason::kError) {
      break;
    }
    history.marks.push_back((std::uint32_t{entry.prompt} << 16U) |
                            (std::uint32_t{entry.choice} << 8U) |
                            static_cast<std::uint32_t>(entry.finish));
    history.tokens.push_back(entry.token);
    if (entry.position == 0 && entry.choice == 0) {
      history.cached_tokens.push_back(cached_tokens(i));
    }
  }
  return history;
}

std::uint32_t EventLog::cached_tokens(std::size_t index) const {
  const Entry& entry = entries_[index];
  const auto cached = cached_tokens_.find(choice_of(entry.prompt, entry.choice));
  if (cached == cached_tokens_.end()) {
    return 0;
  }
  const std::vector<Since>& values = cached->second;
  const auto next =
      std::upper_bound(values.begin(), values.end(), index, [](std::size_t at, const Since& since) {
        return at < since.index;
      });
  return next == values.begin() ? 0 : std::prev(next)->value;
}

std::vector<step::TokenLogprob> EventLog::top_logprobs(std::size_t index) const {
  const auto tops =
      std::lower_bound(tops_.begin(), tops_.end(), index, [](const Tops& one, std::size_t at) {
        return one.index < at;
      });
  const auto next = std::next(tops);
  const std::size_t end = next == tops_.end() ? top_logprobs_.size() : next->begin;
  return {top_logprobs_.begin() + static_cast<std::ptrdiff_t>(tops->begin),
          top_logprobs_.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace phalanx::keeper
