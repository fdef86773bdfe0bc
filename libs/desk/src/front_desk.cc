// SPDX-License-Identifier: Apache-2.0
#include "phalanx/desk/front_desk.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "phalanx/base/overloaded.h"
#include "phalanx/step/limits.h"
#include "phalanx/wire/error_text.h"
#include "phalanx/wire/limits.h"

#include "front_job.h"

namespace phalanx::desk {

namespace {

// Of one FrontEvents record, so that it fits into a record of a control socket.
constexpr std::size_t kMaxEventBytes = std::size_t{96} << 10;

// Events of an ended request that are freed in a turn of the loop: each may take up to 160 bytes.
constexpr std::size_t kDroppedPerTurn = 4096;

// Of bodies in bytes and of bookings in tokens: no request comes near it, and no sum overflows.
constexpr std::uint64_t kMaxAmount = std::uint64_t{1} << 40;

// As MessagePack writes it, at most.
std::size_t bytes_of(const wire::FrontEvent& event) {
  return 64 + 8 * event.top_logprobs.size() + event.error_message.size();
}

}  // namespace

// The dispatcher's view of one prompt.
class FrontDesk::Sink final : public dispatch::GenerationSink {
 public:
  Sink(FrontDesk& desk, std::shared_ptr<Job> job, std::uint32_t prompt)
      : desk_(desk), job_(std::move(job)), prompt_(prompt) {}

  void on_sent(ReplicaId replica, Attempt attempt) override {
    job_->record.replicas.insert(replica);
    job_->record.attempts = std::max(job_->record.attempts, attempt.value());
  }
  void on_token(const dispatch::TokenEvent& token) override {
    desk_.on_token(*job_, prompt_, token);
  }
  void on_done() override {}  // the front counts its choices itself
  void on_error(const Error& error) override { desk_.fail(*job_, error); }

 private:
  FrontDesk& desk_;
  std::shared_ptr<Job> job_;
  std::uint32_t prompt_;
};

FrontDesk::FrontDesk(DeskParts parts) : parts_(std::move(parts)) {}
FrontDesk::~FrontDesk() = default;

FrontDesk::Job* FrontDesk::find(std::size_t front, const wire::RequestKey& key) {
  const auto entry = jobs_.find(key);
  if (entry == jobs_.end() || entry->second->front != front || entry->second->over) {
    return nullptr;
  }
  return entry->second.get();
}

std::optional<Status> FrontDesk::on_record(std::size_t front, const wire::FrontToLeader& record) {
  using Answer = std::optional<Status>;
  return std::visit(
      Overloaded{
          [&](const wire::Admit& wish) -> Answer { return on_admit(front, wish); },
          [&](const wire::Begin& begin) -> Answer { return on_begin(front, begin); },
          [&](const wire::PromptPart& part) -> Answer { return on_prompt_part(front, part); },
          [&](const wire::Generate& wish) -> Answer { return on_generate(front, wish); },
          [&](const wire::StopChoice& stop) -> Answer {
            on_stop(front, stop);
            return ok();
          },
          [&](const wire::End& ending) -> Answer { return on_end(front, ending); },
          [](const auto&) -> Answer { return std::nullopt; }},
      record);
}

Status FrontDesk::on_admit(std::size_t front, const wire::Admit& wish) {
  if (!parts_.has(front, wish.key.connection)) {
    return invalid_argument(text_of(wish.key) + " is of a connection that is not the front's");
  }
  if (wish.body_bytes > kMaxAmount) {
    return invalid_argument(text_of(wish.key) + " asks for more than there is");
  }
  drop_left(wish.key.connection, wish.key.ordinal);  // who asks for one is done with the others
  if (const auto entry = jobs_.find(wish.key); entry != jobs_.end()) {
    const std::shared_ptr<Job> job = entry->second;
    if (job->front == front || !job->forgotten) {
      return take_over(front, *job);
    }
    // Of a front that has let go of the connection at rest, where keys begin anew.
    erase(entry);
    finish(*job, wire::outcome::kError, "its front let go of the connection before it ended");
  }
  if (Status accepting = wish.generates ? parts_.accepting() : ok(); !accepting) {
    refuse(front, wish, accepting.error());
    return ok();
  }
  auto ticket = parts_.admission.admit(wish.body_bytes);
  if (!ticket) {
    refuse(front, wish, ticket.error());
    return ok();
  }
  auto job = std::make_shared<Job>();
  job->front = front;
  job->key = wish.key;
  job->generates = wish.generates;
  job->ticket = *std::move(ticket);
  job->arrived = parts_.clock.now();
  job->record.route = wish.route;
  jobs_.emplace(wish.key, std::move(job));
  ++open_;
  parts_.send(front, wire::Admitted{wish.key, 0, ""});
  return ok();
}

void FrontDesk::refuse(std::size_t front, const wire::Admit& wish, const Error& error) {
  if (wish.generates) {
    parts_.metrics.on_request_refused(wish.route, error_traits(error.code()).http_status);
  }
  parts_.send(front,
              wire::Admitted{wish.key, wire::error_code(error), wire::error_text(error.message())});
}

Status FrontDesk::on_begin(std::size_t front, const wire::Begin& begin) {
  Job* const job = find(front, begin.key);
  if (job != nullptr && job->stage == Stage::kBeginsAgain) {
    begin_again(*job, begin);
    return ok();
  }
  if (job == nullptr || job->stage != Stage::kPlaced || !job->generates ||
      begin.booked_tokens > kMaxAmount) {
    return invalid_argument(text_of(begin.key) + " begins without a place, or twice");
  }
  job->stage = Stage::kBegun;
  job->prompts = begin.prompts;
  job->booked_tokens = begin.booked_tokens;
  job->tokens_left = begin.booked_tokens;
  job->record.id = begin.id;
  job->record.stream = begin.stream;
  job->record.tokenize_time = std::chrono::microseconds(begin.tokenize_us);
  if (const Status room = job->ticket.correct(begin.booked_tokens); !room) {
    parts_.metrics.on_request_refused(job->record.route,
                                      error_traits(room.error().code()).http_status);
    fail(*job, room.error());
  }
  return ok();
}

Status FrontDesk::on_prompt_part(std::size_t front, const wire::PromptPart& part) {
  Job* const job = find(front, part.key);
  if (job != nullptr && job->comes_again()) {
    return ok();
  }
  if (job == nullptr || job->stage != Stage::kBegun || job->dispatched.size() == job->prompts ||
      part.ids.size() > job->tokens_left ||
      job->ids.size() + part.ids.size() > step::kMaxPromptTokens) {
    return invalid_argument(text_of(part.key) + " has more tokens than it said");
  }
  job->tokens_left -= part.ids.size();
  if (!job->failed) {
    job->ids.insert(job->ids.end(), part.ids.begin(), part.ids.end());
  }
  return ok();
}

Status FrontDesk::on_generate(std::size_t front, const wire::Generate& wish) {
  Job* const job = find(front, wish.key);
  if (job != nullptr && job->comes_again()) {
    generate_again(*job, wish);
    return ok();
  }
  if (job == nullptr || job->stage != Stage::kBegun || job->dispatched.size() == job->prompts) {
    return invalid_argument(text_of(wish.key) + " has more prompts than it said");
  }
  if (std::size_t{job->record.choices} + wish.choices > wire::kMaxFrontChoices) {
    return invalid_argument(text_of(wish.key) + " has more choices than a request may have");
  }
  if (job->ended && !job->failed) {
    tell_failure(*job, unavailable("the request was ended before all of it had come"));
  }
  if (job->failed) {
    return ok();
  }
  if (job->ids.empty()) {
    return invalid_argument(text_of(wish.key) + " has a prompt without tokens");
  }
  dispatch(*job, wish);
  return ok();
}

void FrontDesk::dispatch(Job& job, const wire::Generate& wish) {
  const auto prompt = static_cast<std::uint32_t>(job.dispatched.size());
  job.record.choices += wish.choices;
  job.record.prompt_tokens += job.ids.size();
  if (prompt == 0) {
    job.seed = wish.sampling.seed;
  } else if (job.seed != wish.sampling.seed) {
    job.seed.reset();
  }
  dispatch::Generation generation;
  generation.label = job.record.id;
  generation.prompt_ids = std::exchange(job.ids, {});
  generation.sampling = wish.sampling;
  generation.stop = wish.stop;
  generation.choices = wish.choices;
  generation.cache_salt = wish.cache_salt;
  const RequestId request = parts_.dispatcher.submit(
      std::move(generation), std::make_shared<Sink>(*this, jobs_.at(job.key), prompt));
  job.dispatched.push_back({request, std::vector<Job::Choice>(wish.choices)});
  job.record.numbers.push_back(request);
  if (prompt + 1 == job.prompts) {
    job.start_logged = true;
    parts_.metrics.on_request_start(job.record, wish.stop.max_tokens, wish.sampling, job.seed);
  }
}

void FrontDesk::on_stop(std::size_t front, const wire::StopChoice& stop) {
  Job* const job = find(front, stop.key);
  if (job == nullptr || job->ended || stop.prompt >= job->dispatched.size()) {
    return;
  }
  Job::Prompt& prompt = job->dispatched[stop.prompt];
  if (stop.choice >= prompt.choices.size() || stop.position >= prompt.choices[stop.choice].tokens) {
    return;
  }
  Job::Choice& choice = prompt.choices[stop.choice];
  choice.tokens = stop.position + 1;
  choice.stopped = true;
  choice.finished = true;
  parts_.dispatcher.stop(prompt.request, stop.choice, stop.position);
}

Status FrontDesk::on_end(std::size_t front, const wire::End& ending) {
  // Each is a series of a metric.
  if (std::ranges::find(wire::outcome::kAll, ending.outcome) == wire::outcome::kAll.end()) {
    return invalid_argument(text_of(ending.key) + " ends as nothing does");
  }
  Job* const job = find(front, ending.key);
  if (job == nullptr) {
    return ok();
  }
  job->over = true;
  job->telling = Telling::kLive;  // nothing more is to be told
  if (!job->ended) {
    if (job->stage == Stage::kPlaced && job->generates &&
        ending.outcome == wire::outcome::kRefused) {
      parts_.metrics.on_request_refused(job->record.route, static_cast<int>(ending.status));
    }
    finish(*job, ending.outcome, ending.error);
  }
  if (job->stage == Stage::kPlaced || job->forgotten) {
    erase(jobs_.find(ending.key));
  }
  return ok();
}

// What it has of the dispatcher is given back; what has been dispatched is told once.
void FrontDesk::finish(Job& job, const std::string& outcome, const std::string& error) {
  job.ended = true;
  --open_;
  RequestRecord& record = job.record;
  for (const Job::Prompt& prompt : job.dispatched) {
    parts_.dispatcher.cancel(prompt.request);
    for (const Job::Choice& choice : prompt.choices) {
      record.completion_tokens += choice.tokens;
      record.longest_choice = std::max<std::uint64_t>(record.longest_choice, choice.tokens);
    }
  }
  job.ticket = dispatch::Admission::Ticket();
  if (!job.start_logged) {
    return;
  }
  record.outcome = outcome;
  record.error = error;
  record.duration = parts_.clock.now() - job.arrived;
  parts_.metrics.on_request_end(record);
}

// A long log is freed in turns.
FrontDesk::Jobs::iterator FrontDesk::erase(Jobs::iterator entry) {
  if (entry->second->log.size() > kDroppedPerTurn) {
    dropped_.push_back(std::exchange(entry->second->log, EventLog()));
    ask_for_flush();
  }
  return jobs_.erase(entry);
}

void FrontDesk::drop_some() {
  if (dropped_.empty()) {
    return;
  }
  if (!dropped_.front().shrink(kDroppedPerTurn)) {
    dropped_.pop_front();
  }
  if (!dropped_.empty()) {
    ask_for_flush();
  }
}

void FrontDesk::on_token(Job& job, std::uint32_t prompt, const dispatch::TokenEvent& token) {
  Job::Choice& choice = job.dispatched[prompt].choices[token.choice];
  if (job.ended || job.failed || choice.stopped) {
    return;
  }
  parts_.metrics.on_token();
  const SteadyTime now = parts_.clock.now();
  if (job.record.time_to_first_token == Duration::zero()) {
    job.record.time_to_first_token = now - job.arrived;
    job.record.queue_time = token.queue_time;
    job.record.prefill_time = token.prefill_time;
    parts_.metrics.on_first_token(job.record.time_to_first_token);
  }
  if (token.position > 0) {
    parts_.metrics.on_next_token(now - choice.last_token);
  } else if (token.choice == 0) {
    job.record.cached_tokens += token.cached_tokens;  // as its prompt counts once
  }
  choice.last_token = now;
  choice.tokens = token.position + 1;
  choice.finished = token.finish != step::FinishReason::kNone;
  wire::FrontEvent event;
  event.key = job.key;
  event.prompt = prompt;
  event.choice = token.choice;
  event.position = token.position;
  event.token = token.token;
  event.logprob = token.logprob;
  event.top_logprobs = token.top_logprobs;
  event.cached_tokens = token.cached_tokens;
  event.finish = token.finish;
  tell(job, std::move(event));
}

void FrontDesk::fail(Job& job, const Error& error) {
  if (!job.ended && !job.failed) {
    tell_failure(job, error);
  }
}

void FrontDesk::tell_failure(Job& job, const Error& error) {
  job.failed = true;
  wire::FrontEvent event;
  event.key = job.key;
  event.finish = step::FinishReason::kError;
  event.error_code = wire::error_code(error);
  event.error_message = wire::error_text(error.message());
  tell(job, std::move(event));
}

void FrontDesk::tell(Job& job, wire::FrontEvent event) {
  job.log.append(event);
  if (job.telling == Telling::kLive) {
    ask_for_flush();
    put_out(*job.front, std::move(event));
  }
}

// Into a record that a control socket takes.
void FrontDesk::put_out(std::size_t front, wire::FrontEvent event) {
  std::deque<Outgoing>& records = outbox_[front];
  const std::size_t bytes = bytes_of(event);
  if (records.empty() || records.back().record.events.size() == wire::kMaxFrontEvents ||
      records.back().bytes + bytes > kMaxEventBytes) {
    records.emplace_back();
  }
  records.back().bytes += bytes;
  records.back().record.events.push_back(std::move(event));
}

void FrontDesk::ask_for_flush() {
  if (!std::exchange(flush_asked_, true)) {
    parts_.flush_later(Duration::zero());
  }
}

void FrontDesk::flush() {
  flush_asked_ = false;
  drop_some();
  push_again();
  for (auto& [front, records] : std::exchange(outbox_, {})) {
    for (Outgoing& outgoing : records) {
      parts_.send(front, std::move(outgoing.record));
    }
  }
}

}  // namespace phalanx::desk
