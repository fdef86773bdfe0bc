// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/offline_run.h"

#include <iomanip>
#include <iostream>
#include <utility>

#include "phalanx/json/writer.h"
#include "phalanx/os/machine.h"
#include "phalanx/step/sampling.h"

namespace phalanx::serving {

namespace {

std::string messages_of(const std::string& prompt) {
  json::Writer messages;
  messages.begin_array().begin_object();
  messages.key("content").text(prompt);
  messages.key("role").text("user");
  messages.end_object().end_array();
  return messages.take();
}

}  // namespace

class OfflineRun::Sink final : public dispatch::GenerationSink {
 public:
  Sink(OfflineRun& run, std::size_t index, const TextOptions& options)
      : run_(run), index_(index), text_(options, *run.model_.tokenizer) {}

  void on_token(const dispatch::TokenEvent& token) override {
    const TextEvent event = text_.push(token.position, token.token, token.finish);
    Generation& generation = run_.generations_[index_];
    const SteadyTime now = steady_clock().now();
    if (generation.ids.empty()) {
      generation.first_token = now;
    }
    generation.last_token = now;
    generation.ids.push_back(token.token);
    generation.text += event.text;
    if (event.finish != step::FinishReason::kNone) {
      generation.finish_reason = step::finish_name(event.finish);
    }
  }
  void on_done() override { run_.end_one(); }
  void on_error(const Error& error) override { run_.fail(error); }

 private:
  OfflineRun& run_;
  std::size_t index_;
  TextChoice text_;
};

OfflineRun::OfflineRun(OfflineOptions options,
                       const ServedModel& model,
                       dispatch::Dispatcher& dispatcher,
                       Done done)
    : options_(std::move(options)),
      model_(model),
      dispatcher_(dispatcher),
      done_(std::move(done)) {}

OfflineRun::~OfflineRun() = default;

void OfflineRun::start() {
  started_ = steady_clock().now();
  open_ = options_.prompts.size();
  generations_.resize(open_);
  for (std::size_t i = 0; i < generations_.size() && !ended_; ++i) {
    if (Status status = submit(i); !status) {
      fail(status.error());
    }
  }
}

Status OfflineRun::submit(std::size_t index) {
  Generation& generation = generations_[index];
  generation.prompt = options_.prompts[index];
  std::vector<TokenId> ids;
  if (options_.apply_chat_template && model_.chat_template != nullptr) {
    openai::TemplateInput conversation;
    conversation.messages_json = messages_of(generation.prompt);
    auto tokens = tokenize_chat(model_, conversation);
    if (!tokens) {
      return invalid_argument("--prompt: " + tokens.error().message);
    }
    ids = *std::move(tokens);
  } else {
    PHALANX_TRY(ids, model_.tokenizer->encode(generation.prompt, {true, true}));
  }
  generation.prompt_tokens = ids.size();
  openai::GenerationFields fields;
  fields.temperature = options_.temperature;
  fields.seed = options_.seed;
  auto request = complete_request(
      model_, fields, std::move(ids), {"--prompt", options_.max_tokens}, os::random_u64());
  if (!request) {
    return invalid_argument(request.error().message);
  }
  dispatcher_.submit(std::move(request->generation),
                     std::make_shared<Sink>(*this, index, request->text));
  return ok();
}

void OfflineRun::end_one() {
  if (--open_ == 0 && !ended_) {
    ended_ = true;
    print();
    done_(0);
  }
}

void OfflineRun::fail(const Error& error) {
  if (!std::exchange(ended_, true)) {
    done_(error);
  }
}

void OfflineRun::print() const {
  std::size_t tokens = 0;
  SteadyTime last = started_;
  std::cout << std::fixed << std::setprecision(1);
  for (const Generation& generation : generations_) {
    tokens += generation.ids.size();
    last = std::max(last, generation.last_token);
    const double ttft = to_milliseconds(generation.first_token - started_);
    const auto later = static_cast<double>(generation.ids.size() - 1);
    std::cout << "prompt         " << generation.prompt << "\n"
              << "text           " << generation.text << "\n"
              << "token ids      [";
    for (std::size_t i = 0; i < generation.ids.size(); ++i) {
      std::cout << (i == 0 ? "" : ", ") << generation.ids[i];
    }
    std::cout << "]\n"
              << "finish_reason  " << generation.finish_reason << "\n"
              << "tokens         " << generation.prompt_tokens << " prompt, "
              << generation.ids.size() << " generated\n"
              << "TTFT           " << ttft << " ms\n"
              << "ms per token   "
              << (later > 0
                      ? to_milliseconds(generation.last_token - generation.first_token) / later
                      : 0.0)
              << "\n\n";
  }
  const double seconds = to_seconds(last - started_);
  std::cout << "overall        " << tokens << " tokens in " << std::setprecision(3) << seconds
            << " s, " << std::setprecision(1)
            << (seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0) << " tok/s" << std::endl;
}

}  // namespace phalanx::serving
