// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/offline_run.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

#include "phalanx/json/writer.h"
#include "phalanx/os/machine.h"
#include "phalanx/step/sampling.h"

namespace phalanx::serving {

namespace {

constexpr const char* kOfflineRoute = "--prompt";

std::string messages_of(const std::string& prompt) {
  json::Writer messages;
  messages.begin_array().begin_object();
  messages.key("content").text(prompt);
  messages.key("role").text("user");
  messages.end_object().end_array();
  return messages.take();
}

wire::RequestKey offline_key(std::size_t index) {
  return {wire::kFirstPromptConnection + index, 1};
}

}  // namespace

class OfflineRun::Sink final : public RequestSink {
 public:
  Sink(OfflineRun& run, std::size_t index, const TextOptions& options)
      : run_(run), index_(index), text_(options, *run.model_.tokenizer) {}

  void on_token(const wire::FrontEvent& token) override { run_.on_token(index_, text_, token); }
  void on_history(const wire::History&) override {
    run_.fail(internal_error("tokens came as written before, and nothing was"));
  }
  void on_error(const Error& error) override { run_.fail(error); }

 private:
  OfflineRun& run_;
  std::size_t index_;
  TextChoice text_;
};

OfflineRun::OfflineRun(OfflineOptions options,
                       const ServedModel& model,
                       RequestDesk& desk,
                       const Clock& clock,
                       OfflineCalls calls)
    : options_(std::move(options)),
      model_(model),
      desk_(desk),
      clock_(clock),
      calls_(std::move(calls)) {}

OfflineRun::~OfflineRun() = default;

void OfflineRun::start() {
  started_ = clock_.now();
  generations_.resize(options_.prompts.size());
  begin_next();
}

// One after the other, because the answer of the desk comes in another turn of the loop.
void OfflineRun::begin_next() {
  if (ended_ || begun_ == generations_.size()) {
    return;
  }
  const std::size_t index = begun_++;
  const SteadyTime before = clock_.now();
  Result<GenerationRequest> request = request_of(options_.prompts[index]);
  if (!request) {
    fail(request.error());
    return;
  }
  const Duration tokenize_time = clock_.now() - before;
  const auto shared = std::make_shared<GenerationRequest>(*std::move(request));
  desk_.admit({offline_key(index), kOfflineRoute, options_.prompts[index].size(), true},
              [this, index, shared, tokenize_time](const Status& admitted) {
                if (!admitted) {
                  fail(admitted.error());
                  return;
                }
                begin(index, std::move(*shared), tokenize_time);
                begin_next();
              });
}

Result<GenerationRequest> OfflineRun::request_of(const std::string& prompt) const {
  std::vector<TokenId> ids;
  if (options_.how.apply_chat_template && model_.chat_template != nullptr) {
    openai::TemplateInput conversation;
    conversation.messages_json = messages_of(prompt);
    auto tokens = tokenize_chat(model_, conversation, static_cast<std::int64_t>(unix_seconds()));
    if (!tokens) {
      return invalid_argument("--prompt: " + tokens.error().message);
    }
    ids = *std::move(tokens);
  } else {
    PHALANX_TRY(ids, model_.tokenizer->encode(prompt, {true, true}));
  }
  openai::GenerationFields fields;
  fields.temperature = options_.how.temperature;
  if (options_.how.is_seeded) {
    fields.seed = options_.how.seed;
  }
  auto request = complete_request(
      model_, fields, std::move(ids), {kOfflineRoute, options_.how.max_tokens}, os::random_u64());
  if (!request) {
    return invalid_argument(request.error().message);
  }
  return *std::move(request);
}

void OfflineRun::begin(std::size_t index, GenerationRequest request, Duration tokenize_time) {
  generations_[index].prompt_tokens = request.generation.prompt_ids.size();
  RequestSummary summary;
  summary.id = "prompt-" + std::to_string(index + 1);
  summary.booked_tokens = request.booked_tokens;
  summary.tokenize_time = tokenize_time;
  auto sink = std::make_shared<Sink>(*this, index, request.text);
  std::vector<GenerationRequest> prompts;
  prompts.push_back(std::move(request));
  desk_.begin(offline_key(index), summary, std::move(prompts), std::move(sink));
}

void OfflineRun::on_token(std::size_t index, TextChoice& text, const wire::FrontEvent& token) {
  Generation& generation = generations_[index];
  const TextEvent event = text.push(token.position, token.token, token.finish);
  const SteadyTime now = clock_.now();
  if (generation.ids.empty()) {
    generation.first_token = now;
  }
  generation.last_token = now;
  generation.ids.push_back(token.token);
  generation.text += event.text;
  if (event.finish != step::FinishReason::kNone) {
    generation.finish_reason = step::finish_name(event.finish);
    desk_.end({offline_key(index), generation.finish_reason, "", 200});
    put_out();
  }
}

// What is complete, as far as it is in order: at the end little is left to say.
void OfflineRun::put_out() {
  while (!ended_ && put_out_ < generations_.size() &&
         !generations_[put_out_].finish_reason.empty()) {
    calls_.on_output(output_of(put_out_++));
  }
  if (!ended_ && put_out_ == generations_.size()) {
    ended_ = true;
    calls_.on_output(overall());
    calls_.on_end(ok());
  }
}

void OfflineRun::fail(const Error& error) {
  if (!std::exchange(ended_, true)) {
    calls_.on_end(error);
  }
}

std::string OfflineRun::output_of(std::size_t index) const {
  const Generation& generation = generations_[index];
  const double ttft = to_milliseconds(generation.first_token - started_);
  const auto later = static_cast<double>(generation.ids.size() - 1);
  std::ostringstream out;
  out << std::fixed << std::setprecision(1);
  out << "prompt         " << options_.prompts[index] << "\n"
      << "text           " << generation.text << "\n"
      << "token ids      [";
  for (std::size_t i = 0; i < generation.ids.size(); ++i) {
    out << (i == 0 ? "" : ", ") << generation.ids[i];
  }
  out << "]\n"
      << "finish_reason  " << generation.finish_reason << "\n"
      << "tokens         " << generation.prompt_tokens << " prompt, " << generation.ids.size()
      << " generated\n"
      << "TTFT           " << ttft << " ms\n"
      << "ms per token   "
      << (later > 0 ? to_milliseconds(generation.last_token - generation.first_token) / later : 0.0)
      << "\n\n";
  return out.str();
}

std::string OfflineRun::overall() const {
  std::size_t tokens = 0;
  SteadyTime last = started_;
  for (const Generation& generation : generations_) {
    tokens += generation.ids.size();
    last = std::max(last, generation.last_token);
  }
  const double seconds = to_seconds(last - started_);
  std::ostringstream out;
  out << std::fixed << "overall        " << tokens << " tokens in " << std::setprecision(3)
      << seconds << " s, " << std::setprecision(1)
      << (seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0) << " tok/s\n";
  return out.str();
}

}  // namespace phalanx::serving
