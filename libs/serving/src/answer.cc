// SPDX-License-Identifier: Apache-2.0
#include "answer.h"

#include <utility>

#include "phalanx/base/hash.h"
#include "phalanx/http/sse.h"
#include "phalanx/step/sampling.h"

#include "error_answer.h"
#include "ignored_fields.h"

namespace phalanx::serving {

namespace {

// Writing JSON of so many bytes takes a fraction of a millisecond.
constexpr std::size_t kLargeAnswerBytes = std::size_t{16} << 10;

// When the queue of what is written away from the loop is full.
constexpr Duration kRetryTime = std::chrono::milliseconds(10);

constexpr std::size_t kLogprobBytes = 96;  // of one token's logprob as JSON, about

// Of a token that was told, in the leader, until its answer is sent.
constexpr std::size_t kKeptTokenBytes = 32;
constexpr std::size_t kKeptTopBytes = 16;

}  // namespace

openai::ResponseHead head_of(openai::Api api,
                             const std::string& id,
                             const AnswerNotes& notes,
                             const ServedModel& model) {
  const std::uint64_t high = Fingerprint().add_text(id).value();
  const std::uint64_t low = notes.salt;
  openai::ResponseHead head;
  head.id = api == openai::Api::kChat ? openai::chat_completion_id(high, mix64(low))
                                      : openai::completion_id(high, mix64(low));
  head.created = static_cast<std::int64_t>(notes.created);
  head.model = model.name;
  return head;
}

Answer::Answer(const AnswerContext& context,
               AnswerOptions options,
               std::shared_ptr<http::Exchange> exchange,
               Place place)
    : context_(context),
      options_(std::move(options)),
      chunks_(options_.api, options_.head),
      exchange_(std::move(exchange)),
      place_(std::move(place)) {}

void Answer::start(const RequestSummary& summary, std::vector<GenerationRequest> prompts) {
  choices_per_prompt_ = prompts.front().generation.choices;
  choices_open_ = prompts.size() * choices_per_prompt_;
  choices_.reserve(choices_open_);
  usage_.cached_tokens = 0;
  for (const GenerationRequest& prompt : prompts) {
    usage_.prompt_tokens += prompt.generation.prompt_ids.size();
    const TextChoice choice(prompt.text, *context_.model.tokenizer);
    for (std::uint32_t i = 0; i < choices_per_prompt_; ++i) {
      choices_.emplace_back(choice);
    }
  }
  if (const http::Resumed* const resumed = exchange_->resumed();
      resumed != nullptr && resumed->streaming) {
    streaming_ = true;
    begun_ = options_.notes.told > 0;  // what is told first is written behind the beginning
  }
  options_.notes.told = 0;
  exchange_->on_close([weak = weak_from_this()] {
    if (const auto answer = weak.lock()) {
      answer->on_client_gone();
    }
  });
  if (options_.stream && !streaming_ && context_.first_comment > Duration::zero()) {
    comment_timer_ = call_later(context_.first_comment, &Answer::say_alive);
  }
  context_.desk.begin(place_.key(), summary, std::move(prompts), shared_from_this());
}

std::unique_ptr<os::EventLoop::Handle> Answer::call_later(Duration wait, void (Answer::*what)()) {
  return context_.loop.call_after(wait, [weak = weak_from_this(), what] {
    const auto answer = weak.lock();
    if (answer == nullptr) {
      return;
    }
    const std::function<void(std::uint64_t)> mark = answer->context_.mark;
    if (mark) {
      mark(answer->place_.key().connection);
    }
    (answer.get()->*what)();
    if (mark) {
      mark(0);
    }
  });
}

// Clients take the first event for the first token, so none comes before there is one.
void Answer::say_alive() {
  if (!ended_) {
    open_stream();
    exchange_->write(http::sse_comment("ping"));
  }
}

void Answer::open_stream() {
  if (std::exchange(streaming_, true)) {
    return;
  }
  comment_timer_.reset();
  http::Headers headers = http::sse_headers();
  add_ignored_fields(options_.ignored_fields, &headers);
  exchange_->start_stream(200, std::move(headers));
}

void Answer::begin_stream() {
  open_stream();
  if (std::exchange(begun_, true)) {
    return;
  }
  openai::Usage nothing_yet;
  nothing_yet.prompt_tokens = usage_.prompt_tokens;
  const openai::Usage* shown = options_.continuous_usage ? &nothing_yet : nullptr;
  for (std::uint32_t i = 0; i < choices_.size(); ++i) {
    if (options_.api == openai::Api::kChat) {
      exchange_->write(http::sse_event(chunks_.role(i, shown)));
    } else if (!options_.echo.empty()) {
      EchoedPrompt& echo = options_.echo[i / choices_per_prompt_];
      if (!echo.events.empty()) {
        exchange_->write(std::move(echo.events[i % choices_per_prompt_]));
      }
    }
  }
}

void Answer::count_told() {
  ++options_.notes.told;
  exchange_->note(to_handler_notes(options_.notes));
}

openai::TokenLogprobs Answer::logprobs_of(const wire::FrontEvent& token,
                                          const TextEvent& event) const {
  const tokenizer::Tokenizer& tokenizer = *context_.model.tokenizer;
  openai::TokenLogprobs result;
  result.bytes = tokenizer.token_bytes(token.token);
  result.logprob = token.logprob.value_or(0.0F);
  result.text_offset = event.offset;
  for (const step::TokenLogprob& top : token.top_logprobs) {
    result.top.emplace_back(tokenizer.token_bytes(top.token), top.logprob);
  }
  return result;
}

// Behind the last choice, tokens of before its stop may still come, while another thread has the
// choices: they are not looked at any more.
Answer::ChoiceState* Answer::open_choice(std::size_t index) {
  const bool is_open = !ended_ && choices_open_ > 0 && index < choices_.size() &&
                       !choices_[index].decoder.finished();
  return is_open ? &choices_[index] : nullptr;
}

void Answer::on_token(const wire::FrontEvent& token) {
  const std::size_t index = std::size_t{token.prompt} * choices_per_prompt_ + token.choice;
  count_told();
  ChoiceState* const found = open_choice(index);
  if (found == nullptr) {
    return;
  }
  ChoiceState& choice = *found;
  const TextEvent event = choice.decoder.push(token.position, token.token, token.finish);
  if (token.choice == 0 && token.position == 0) {
    *usage_.cached_tokens += token.cached_tokens;  // as its prompt counts once
  }
  hear(choice, event);
  std::size_t held = kKeptTokenBytes + kKeptTopBytes * token.top_logprobs.size();
  if (options_.stream) {
    write_token(index, token, event);
  } else {
    choice.text += event.text;
    held += event.text.size();
    if (options_.logprobs) {
      choice.logprobs.push_back(logprobs_of(token, event));
      held += kLogprobBytes * (1 + token.top_logprobs.size());
    }
  }
  exchange_->hold(held);
  if (event.to_stop) {
    context_.desk.stop({token.key, token.prompt, token.choice, token.position});
  }
  if (choice.decoder.finished() && --choices_open_ == 0) {
    finish();
  }
}

void Answer::hear(ChoiceState& choice, const TextEvent& event) {
  ++usage_.completion_tokens;
  if (event.finish != step::FinishReason::kNone) {
    choice.finish_reason = step::finish_name(event.finish);
    choice.stop_reason = event.stopped_by;
  }
}

// Nothing is written: that was done. Nor is anything noted: what was noted counts them all.
void Answer::on_history(const wire::History& history) {
  exchange_->hold(kKeptTokenBytes * history.tokens.size());
  options_.notes.told += history.tokens.size();
  auto cached = history.cached_tokens.begin();
  for (std::size_t i = 0; i < history.tokens.size();) {
    const auto mark = wire::HistoryMark::of(history.marks[i]);
    const auto tokens = std::span(history.tokens).subspan(i, history.equal_marks(i));
    i += tokens.size();
    ChoiceState* const found =
        open_choice(std::size_t{mark.prompt} * choices_per_prompt_ + mark.choice);
    if (found == nullptr) {
      continue;
    }
    if (mark.choice == 0 && found->told_before == 0 && cached != history.cached_tokens.end()) {
      *usage_.cached_tokens += *cached++;
    }
    if (!options_.logprobs && mark.finish == step::FinishReason::kNone &&
        found->decoder.skip(tokens)) {
      found->told_before += static_cast<std::uint32_t>(tokens.size());
      usage_.completion_tokens += tokens.size();
    } else {
      hear_again(*found, history.key, mark, tokens);
    }
  }
}

// Tokens of one choice, each with that mark.
void Answer::hear_again(ChoiceState& choice,
                        const wire::RequestKey& key,
                        const wire::HistoryMark& mark,
                        std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    const TextEvent event = choice.decoder.push(choice.told_before++, token, mark.finish);
    hear(choice, event);
    if (event.to_stop) {  // whoever found it may have died before that was told
      context_.desk.stop({key, mark.prompt, mark.choice, choice.told_before - 1});
    }
    if (choice.decoder.finished()) {
      if (--choices_open_ == 0) {
        finish();  // nothing else comes that would
      }
      return;
    }
  }
}

void Answer::write_token(std::size_t index, const wire::FrontEvent& token, const TextEvent& event) {
  begin_stream();
  ChoiceState& choice = choices_[index];
  openai::ChoiceText text;
  text.index = static_cast<std::uint32_t>(index);
  text.text = event.text;
  text.finish_reason = choice.finish_reason;
  text.stop_reason = choice.stop_reason;
  std::vector<openai::TokenLogprobs> logprobs;
  if (options_.logprobs) {
    logprobs.push_back(logprobs_of(token, event));
    text.has_logprobs = true;
    text.logprobs = logprobs;
  }
  const openai::Usage* shown = options_.continuous_usage ? &usage_ : nullptr;
  write(chunks_.text(text, shown));
}

// Requires `texts` to live as long as the result.
std::vector<openai::ChoiceText> Answer::whole_choices(const std::vector<std::string>& texts) const {
  std::vector<openai::ChoiceText> result;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    openai::ChoiceText text;
    text.index = static_cast<std::uint32_t>(i);
    text.text = texts[i];
    text.finish_reason = choices_[i].finish_reason;
    text.stop_reason = choices_[i].stop_reason;
    text.has_logprobs = options_.logprobs;
    text.logprobs = choices_[i].logprobs;
    result.push_back(text);
  }
  return result;
}

void Answer::finish() {
  if (!options_.stream) {
    return finish_whole();
  }
  begin_stream();
  if (options_.include_usage) {
    write(chunks_.usage(usage_));
  }
  write(std::string(openai::kStreamEnd));
  exchange_->finish();
  close(choices_.back().finish_reason, "");
}

// Nothing changes the choices any more, so a large answer can be written, and what it was made of
// given back, away from the loop. It waits for room there: the tokens are paid for.
void Answer::finish_whole() {
  if (ended_) {
    return;
  }
  outcome_ = choices_.back().finish_reason;
  if (!is_large()) {
    respond_whole(whole_answer());
    return;
  }
  auto response = std::make_shared<http::Response>();
  const auto self = shared_from_this();
  const auto work = [self, response] {
    *response = self->whole_answer();
    self->release_choices();
  };
  if (!context_.run_away(
          true, work, [self, response] { self->respond_whole(std::move(*response)); })) {
    retry_timer_ = call_later(kRetryTime, &Answer::finish_whole);
  }
}

void Answer::release_choices() {
  choices_ = {};
  options_.echo = {};
}

void Answer::respond_whole(http::Response response) {
  if (ended_) {
    return;  // the client left, or the server's deadline came
  }
  exchange_->respond(std::move(response));
  close(outcome_, "");
}

http::Response Answer::whole_answer() const {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    texts.push_back(options_.echo.empty() ? "" : options_.echo[i / choices_per_prompt_].text);
    texts.back() += choices_[i].text;
  }
  const std::vector<openai::ChoiceText> choices = whole_choices(texts);
  http::Response response = http::json_response(
      200,
      options_.api == openai::Api::kChat ? openai::chat_completion(options_.head, choices, usage_)
                                         : openai::text_completion(options_.head, choices, usage_));
  add_ignored_fields(options_.ignored_fields, &response.headers);
  return response;
}

bool Answer::is_large() const {
  std::size_t bytes = 0;
  for (const EchoedPrompt& echo : options_.echo) {
    bytes += echo.text.size() * choices_per_prompt_;
  }
  for (const ChoiceState& choice : choices_) {
    bytes += choice.text.size() +
             choice.logprobs.size() * kLogprobBytes *
                 (1 + (choice.logprobs.empty() ? 0 : choice.logprobs.front().top.size()));
  }
  return bytes > kLargeAnswerBytes;
}

void Answer::on_error(const Error& error) {
  if (ended_) {
    return;
  }
  count_told();
  const openai::ApiError shown = openai::from_error(error);
  if (streaming_) {
    write(openai::error_body(shown));
    write(std::string(openai::kStreamEnd));
    exchange_->finish();
  } else {
    respond_error(*exchange_, shown);
  }
  close(wire::outcome::kError, error.to_string());
}

void Answer::on_client_gone() {
  if (ended_) {
    return;
  }
  close(wire::outcome::kClientGone, "");
}

void Answer::write(std::string json) {
  exchange_->write(http::sse_event(std::move(json)));
}

void Answer::close(const std::string& outcome, const std::string& error) {
  ended_ = true;
  comment_timer_.reset();
  retry_timer_.reset();
  place_.end(outcome, error);
}

}  // namespace phalanx::serving
