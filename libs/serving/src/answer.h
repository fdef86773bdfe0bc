// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/http/exchange.h"
#include "phalanx/openai/responses.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/serving/request_desk.h"
#include "phalanx/serving/served_model.h"

#include "answer_notes.h"

namespace phalanx::serving {

// Everything that the answers of one server share. Borrowed parts outlive every answer.
struct AnswerContext {
  const ServedModel& model;
  RequestDesk& desk;
  os::EventLoop& loop;
  // A stream without a token after so long begins with its header and comments; 0: never.
  Duration first_comment;
  // As ApiContext::run_away; large answers are written there.
  std::function<bool(bool is_long, std::function<void()> work, std::function<void()> done)>
      run_away;
  std::function<void(std::uint64_t connection)> mark;  // as ApiContext::mark
};

// A prompt that stands before each of its choices.
struct EchoedPrompt {
  std::string text;                 // of a whole answer; a stream has events instead
  std::vector<std::string> events;  // one per choice, complete as server-sent events
};

struct AnswerOptions {
  openai::Api api = openai::Api::kChat;
  openai::ResponseHead head;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool logprobs = false;
  std::string ignored_fields;      // of the request, as the answer's header names them; "" = none
  std::vector<EchoedPrompt> echo;  // per prompt; empty = none
  AnswerNotes notes;               // those that it begins with
};

// What the objects of an answer begin with, for the request `id`.
[[nodiscard]] openai::ResponseHead head_of(openai::Api api,
                                           const std::string& id,
                                           const AnswerNotes& notes,
                                           const ServedModel& model);

// The answer to one chat or completion request: hears the tokens of its prompts and choices and
// writes them to the client, as events or as one object. Choice index = prompt index · n + choice.
// Of a stream that another process has begun it hears first what that one has written.
//
// Ownership: shared by the desk, which it hears from, and by the exchange's callback; ends when all
// is said.
// Threads: the loop thread.
class Answer final : public RequestSink, public std::enable_shared_from_this<Answer> {
 public:
  Answer(const AnswerContext& context,
         AnswerOptions options,
         std::shared_ptr<http::Exchange> exchange,
         Place place);

  // Asks for one generation per prompt.
  void start(const RequestSummary& summary, std::vector<GenerationRequest> prompts);

  void on_token(const wire::FrontEvent& token) override;
  void on_history(const wire::History& history) override;
  void on_error(const Error& error) override;

 private:
  struct ChoiceState {
    explicit ChoiceState(TextChoice made) : decoder(std::move(made)) {}
    TextChoice decoder;
    std::uint32_t told_before = 0;  // tokens
    std::string text;
    std::string finish_reason;
    openai::StopReason stop_reason;
    std::vector<openai::TokenLogprobs> logprobs;
  };

  void on_client_gone();
  void count_told();
  [[nodiscard]] ChoiceState* open_choice(std::size_t index);
  void hear(ChoiceState& choice, const TextEvent& event);
  void hear_again(ChoiceState& choice,
                  const wire::RequestKey& key,
                  const wire::HistoryMark& mark,
                  std::span<const TokenId> tokens);
  void say_alive();
  void open_stream();
  void begin_stream();
  [[nodiscard]] std::unique_ptr<os::EventLoop::Handle> call_later(Duration wait,
                                                                  void (Answer::*what)());
  void write_token(std::size_t index, const wire::FrontEvent& token, const TextEvent& event);
  void finish();
  void finish_whole();
  void release_choices();
  void respond_whole(http::Response response);
  [[nodiscard]] http::Response whole_answer() const;
  [[nodiscard]] bool is_large() const;
  void write(std::string json);
  void close(const std::string& outcome, const std::string& error);
  [[nodiscard]] openai::TokenLogprobs logprobs_of(const wire::FrontEvent& token,
                                                  const TextEvent& event) const;
  [[nodiscard]] std::vector<openai::ChoiceText> whole_choices(
      const std::vector<std::string>& texts) const;

  AnswerContext context_;
  AnswerOptions options_;
  openai::StreamChunks chunks_;
  std::shared_ptr<http::Exchange> exchange_;
  Place place_;
  std::vector<ChoiceState> choices_;
  std::uint32_t choices_per_prompt_ = 1;
  std::size_t choices_open_ = 0;
  openai::Usage usage_;     // so far
  std::string outcome_;     // of a whole answer that is being written
  bool streaming_ = false;  // its header is written
  bool begun_ = false;      // so is what stands before the first token: roles, or echoed prompts
  bool ended_ = false;
  std::unique_ptr<os::EventLoop::Handle> comment_timer_;
  std::unique_ptr<os::EventLoop::Handle> retry_timer_;
};

}  // namespace phalanx::serving
