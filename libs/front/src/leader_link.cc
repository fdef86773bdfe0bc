// SPDX-License-Identifier: Apache-2.0
#include "phalanx/front/leader_link.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "phalanx/wire/codec.h"
#include "phalanx/wire/error_text.h"
#include "phalanx/wire/limits.h"

namespace phalanx::front {

namespace {

constexpr int kRecordsPerTurn = 32;
constexpr auto kRetryTime = std::chrono::milliseconds(1);

std::uint32_t microseconds_of(Duration duration) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(
      to_microseconds(duration), 0, std::numeric_limits<std::uint32_t>::max()));
}

// While it is in scope, what is done is marked as done for the connection; for good, if it throws.
class Marked {
 public:
  Marked(const LinkCalls& calls, std::uint64_t connection) : calls_(calls) { mark(connection); }
  Marked(const Marked&) = delete;
  Marked& operator=(const Marked&) = delete;
  ~Marked() {
    if (std::uncaught_exceptions() == exceptions_) {
      mark(0);
    }
  }

 private:
  void mark(std::uint64_t connection) const {
    if (calls_.mark) {
      calls_.mark(connection);
    }
  }
  const LinkCalls& calls_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace

LeaderLink::LeaderLink(os::EventLoop& loop, os::ControlSocket& socket, LinkCalls calls)
    : loop_(loop), socket_(socket), calls_(std::move(calls)) {}

LeaderLink::~LeaderLink() {
  *alive_ = false;
}

Status LeaderLink::start() {
  PHALANX_TRY(readable_, loop_.watch_readable(socket_.fd(), [this] { work(); }));
  return ok();
}

// ---- what comes

void LeaderLink::work() {
  loop_.name_callback("what the leader sent");
  if (events_.empty()) {
    read_some();
  }
  tell_some();
  if (!events_.empty() && !std::exchange(work_posted_, true)) {
    loop_.post([this, alive = alive_] {
      if (*alive) {
        work_posted_ = false;
        work();
      }
    });
  }
}

void LeaderLink::read_some() {
  const CpuTimeLimit limit = loop_.callback_limit(kTurnTime);
  for (int i = 0; i < kRecordsPerTurn && events_.empty() && !broken_ && !limit.passed(); ++i) {
    auto received = socket_.receive();
    if (!received) {
      break_up(received.error());
    } else if (auto* const message = std::get_if<os::ControlMessage>(&*received)) {
      on_record(std::move(*message));
    } else {
      if (std::holds_alternative<os::ControlEnd>(*received)) {
        readable_.reset();  // the hang-up ends this process; until then it would spin
      }
      return;
    }
  }
}

void LeaderLink::on_record(os::ControlMessage message) {
  auto record = wire::decode_leader_to_front(message.bytes);
  if (!record) {
    break_up(record.error());
  } else if (auto* const events = std::get_if<wire::FrontEvents>(&*record)) {
    events_ = std::move(events->events);
  } else if (const auto* const history = std::get_if<wire::History>(&*record)) {
    tell(*history);
  } else if (const auto* const admitted = std::get_if<wire::Admitted>(&*record)) {
    on_admitted(*admitted);
  } else if (const auto* const connect = std::get_if<wire::Connect>(&*record)) {
    on_connect(*connect, std::move(message.fds));
  } else if (auto* const report = std::get_if<wire::Report>(&*record)) {
    on_report(*report);
  } else if (const auto* const drain = std::get_if<wire::Drain>(&*record)) {
    calls_.on_drain(drain->answers_end);
  } else if (std::holds_alternative<wire::Retire>(*record)) {
    calls_.on_retire();
  } else if (auto* const part = std::get_if<wire::PromptText>(&*record); part && calls_.on_prompt) {
    calls_.on_prompt(std::move(*part));
  } else if (const auto* const how = std::get_if<wire::RunPrompts>(&*record);
             how && calls_.on_run_prompts) {
    calls_.on_run_prompts(*how);
  } else {
    break_up(invalid_argument("prompts of a command line came, and nobody here answers them"));
  }
}

void LeaderLink::on_connect(const wire::Connect& connect, std::vector<os::UniqueFd> fds) {
  const std::size_t expected = connect.resumes ? 2 : 1;
  if (fds.size() != expected) {
    break_up(invalid_argument("a connection came with " + std::to_string(fds.size()) +
                              " descriptors; expected " + std::to_string(expected)));
    return;
  }
  const Marked marked(calls_, connect.connection);
  calls_.on_connect(
      connect, std::move(fds.front()), connect.resumes ? std::move(fds.back()) : os::UniqueFd());
}

void LeaderLink::tell_some() {
  if (events_.empty()) {
    return;
  }
  const CpuTimeLimit limit = loop_.callback_limit(kTurnTime);
  for (std::size_t i = 0; i < kEventsPerTurn && events_told_ < events_.size() && !limit.passed();
       ++i) {
    tell(events_[events_told_++]);
  }
  if (events_told_ == events_.size()) {
    events_.clear();
    events_told_ = 0;
  }
}

void LeaderLink::tell(const wire::FrontEvent& event) {
  const auto entry = sinks_.find(event.key);
  if (entry == sinks_.end()) {
    return;  // it has ended here; the leader did not know that yet
  }
  const std::shared_ptr<serving::RequestSink> sink = entry->second;  // it may end itself
  const Marked marked(calls_, event.key.connection);
  if (event.finish == step::FinishReason::kError) {
    sink->on_error(wire::error_of(event.error_code, event.error_message));
  } else {
    sink->on_token(event);
  }
}

void LeaderLink::tell(const wire::History& history) {
  const auto entry = sinks_.find(history.key);
  if (entry != sinks_.end()) {
    const std::shared_ptr<serving::RequestSink> sink = entry->second;
    const Marked marked(calls_, history.key.connection);
    sink->on_history(history);
  }
}

void LeaderLink::on_admitted(const wire::Admitted& admitted) {
  const auto entry = asking_.find(admitted.key);
  if (entry == asking_.end()) {
    break_up(invalid_argument("a place came that nobody asked for"));
    return;
  }
  const Answered answered = std::move(entry->second);
  asking_.erase(entry);
  const Marked marked(calls_, admitted.key.connection);
  answered(admitted.code == 0 ? ok() : wire::error_of(admitted.code, admitted.message));
}

void LeaderLink::on_report(const wire::Report& report) {
  const auto entry = queries_.find(report.query);
  if (entry == queries_.end()) {
    break_up(invalid_argument("a report came that nobody asked for"));
    return;
  }
  entry->second.text += report.text;
  if (report.last) {
    Asked asked = std::move(entry->second);
    queries_.erase(entry);
    asked.told(static_cast<int>(report.status), std::move(asked.text));
  }
}

// ---- what goes

void LeaderLink::admit(const wire::Admit& wish, Answered answered) {
  asking_.emplace(wish.key, std::move(answered));
  send(wish);
}

void LeaderLink::begin(const wire::RequestKey& key,
                       const serving::RequestSummary& summary,
                       std::vector<serving::GenerationRequest> prompts,
                       std::shared_ptr<serving::RequestSink> sink) {
  sinks_[key] = std::move(sink);
  send(wire::Begin{key,
                   summary.id,
                   summary.booked_tokens,
                   static_cast<std::uint32_t>(prompts.size()),
                   summary.stream,
                   microseconds_of(summary.tokenize_time),
                   summary.told});
  if (!broken_ && !prompts.empty()) {
    unsent_.emplace_back(Prompts{
        key, {std::make_move_iterator(prompts.begin()), std::make_move_iterator(prompts.end())}});
    flush();
  }
}

void LeaderLink::stop(const wire::StopChoice& choice) {
  send(choice);
}

void LeaderLink::end(const wire::End& ending) {
  sinks_.erase(ending.key);
  send(ending);
}

void LeaderLink::query(wire::QueryKind kind, Told told) {
  const std::uint64_t number = next_query_++;
  queries_.emplace(number, Asked{std::move(told), ""});
  send(wire::Query{number, kind});
}

void LeaderLink::send(const wire::FrontToLeader& record) {
  if (broken_) {
    return;
  }
  std::string bytes = wire::encode(record);
  unsent_bytes_ += bytes.size();
  unsent_.emplace_back(std::move(bytes));
  flush();
  if (unsent_bytes_ > kMaxUnsentBytes) {
    break_up(unavailable("the leader takes nothing"));
  }
}

void LeaderLink::put_out(std::string text) {
  if (!broken_ && !text.empty()) {
    unsent_.emplace_back(Output{std::move(text)});
    flush();
  }
}

wire::FrontToLeader LeaderLink::next_of(Prompts& prompts) {
  dispatch::Generation& generation = prompts.left.front().generation;
  const std::span<const TokenId> ids = std::span(generation.prompt_ids).subspan(prompts.ids_sent);
  if (!ids.empty()) {
    const auto part = ids.first(std::min(wire::kMaxPromptPart, ids.size()));
    prompts.ids_sent += part.size();
    return wire::PromptPart{prompts.key, {part.begin(), part.end()}};
  }
  wire::Generate complete{prompts.key,
                          generation.choices,
                          std::move(generation.sampling),
                          std::move(generation.stop),
                          std::move(generation.cache_salt)};
  prompts.left.pop_front();
  prompts.ids_sent = 0;
  return complete;
}

wire::FrontToLeader LeaderLink::next_of(Output& output) {
  wire::PromptsOutput part{output.text.substr(output.sent, wire::kMaxPromptTextBytes)};
  output.sent += part.text.size();
  return part;
}

// Of prompts or output that are the next to go, their next record, which then is.
void LeaderLink::make_next() {
  std::string bytes;
  bool all_made = false;
  if (auto* const prompts = std::get_if<Prompts>(&unsent_.front())) {
    bytes = wire::encode(next_of(*prompts));
    all_made = prompts->left.empty();
  } else if (auto* const output = std::get_if<Output>(&unsent_.front())) {
    bytes = wire::encode(next_of(*output));
    all_made = output->sent == output->text.size();
  } else {
    return;
  }
  if (all_made) {
    unsent_.pop_front();
  }
  unsent_bytes_ += bytes.size();
  unsent_.emplace_front(std::move(bytes));
}

void LeaderLink::flush() {
  for (int i = 0; i < kRecordsPerTurn && !unsent_.empty(); ++i) {
    make_next();
    const std::string& next = std::get<std::string>(unsent_.front());
    const auto sent = socket_.send(next);
    if (!sent) {
      break_up(sent.error());
      return;
    }
    if (*sent == os::ControlSent::kWouldBlock) {
      flush_after(kRetryTime);
      return;
    }
    unsent_bytes_ -= next.size();
    unsent_.pop_front();
  }
  if (!unsent_.empty()) {
    flush_after(Duration::zero());
  }
}

void LeaderLink::flush_after(Duration wait) {
  retry_ = loop_.call_after(wait, [this] {
    loop_.name_callback("records to the leader");
    flush();
  });
}

void LeaderLink::break_up(const Error& error) {
  if (!std::exchange(broken_, true)) {
    calls_.on_broken(error);
  }
}

}  // namespace phalanx::front
