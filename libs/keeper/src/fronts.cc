// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/fronts.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <variant>

#include "phalanx/base/overloaded.h"
#include "phalanx/keeper/hand_over.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/tcp_account.h"
#include "phalanx/wire/limits.h"

namespace phalanx::keeper {

namespace {

// Of connections, for a front.
constexpr auto kMaxWait = std::chrono::seconds(60);

// Between two looks at connections that wait for one.
constexpr auto kHangUpPeriod = std::chrono::seconds(1);

Error not_its(std::uint64_t connection) {
  return invalid_argument("connection " + std::to_string(connection) + " is not the front's");
}

std::uint32_t milliseconds_since(SteadyTime time) {
  const auto passed =
      std::chrono::duration_cast<std::chrono::milliseconds>(running_clock().now() - time);
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>(passed.count(), std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

Fronts::Fronts(os::EventLoop& loop, FrontsCalls calls) : loop_(loop), calls_(std::move(calls)) {}

Result<std::unique_ptr<Fronts>> Fronts::open(os::EventLoop& loop,
                                             const DoorOptions& doors,
                                             FrontStart start,
                                             const FrontsParts& parts,
                                             FrontsCalls calls) {
  std::unique_ptr<Fronts> fronts(new Fronts(loop, std::move(calls)));
  PHALANX_RETURN_IF_ERROR(fronts->init(doors, std::move(start), parts));
  return fronts;
}

Status Fronts::init(const DoorOptions& doors, FrontStart start, const FrontsParts& parts) {
  const auto add = [this](std::uint64_t id,
                          const os::UniqueFd&,
                          const std::string& peer,
                          const std::string& refusal) {
    table_->add({.id = id, .peer = peer, .refusal = refusal, .waits_since = running_clock().now()});
  };
  PHALANX_TRY(doors_, Doors::open(loop_, doors, add));
  const Status accounts = os::check_tcp_account();
  accounts_ = accounts.has_value();
  if (!accounts_) {
    obs::log_warn("connections_end_with_their_front", {{"why", accounts.error().message()}});
    start.bootstrap.journal_bytes = 0;
    start.bootstrap.journal_places = 0;
  } else if (start.bootstrap.journal_bytes == 0) {
    obs::log_info("answers_end_with_their_front",
                  {{"why", "the addresses or files of this process are limited (ulimit -v, -f)"}});
  }
  start.bootstrap.on_loopback = doors_->on_loopback();
  start.has_quarantine = true;
  quarantine_front_ = start.fronts + start.spares;
  quarantine_ = std::make_unique<Quarantine>(running_clock(), quarantine_calls());
  hand_overs_ = std::make_unique<HandOverQueue>(running_clock(), hand_over_calls());
  // Without that of the quarantine, which begins anew for each suspect.
  renewal_ = std::make_unique<FrontRenewal>(running_clock(), quarantine_front_, renewal_calls());
  times_.resize(quarantine_front_ + 1);
  gone_.resize(quarantine_front_ + 1);
  desk_ = std::make_unique<desk::FrontDesk>(desk_parts(parts));
  const auto give = [this](std::size_t front, const FrontConnection& connection) {
    this->give(front, connection);
  };
  table_ = std::make_unique<ConnectionTable>(
      quarantine_front_ + 1, start.fronts, start.bootstrap.journal_places, give);
  host_ = std::make_unique<FrontHost>(loop_, std::move(start), host_calls());
  return ok();
}

void Fronts::start(int tokenizer, int lifeline_pipe) {
  host_->start(tokenizer, lifeline_pipe);
}

FrontCalls Fronts::host_calls() {
  FrontCalls calls;
  calls.on_ready = [this](std::size_t front) { on_ready(front); };
  calls.on_record = [this](std::size_t front, const wire::FrontToLeader& record) {
    return on_record(front, record);
  };
  calls.on_killed = [this](std::size_t front) { on_killed(front); };
  calls.on_gone = [this](std::size_t front, const FrontEnd& end) { return on_gone(front, end); };
  calls.on_program_refused = [](const Error& cause) {
    obs::log_error("front_program_refused", {{"why", cause.message()}});
  };
  calls.socket_of = [this](std::uint64_t connection) {
    const os::UniqueFd* const socket = doors_->socket(connection);
    return socket == nullptr ? -1 : socket->get();
  };
  calls.on_first_start_failed = [this](const Error& cause) { calls_.on_failed(cause); };
  return calls;
}

Quarantine::Calls Fronts::quarantine_calls() {
  Quarantine::Calls calls;
  calls.restart = [this] { host_->restart(quarantine_front_); };
  calls.stop = [this] { host_->stop(quarantine_front_); };
  calls.give = [this](const FrontConnection& suspect) {
    table_->add_to(quarantine_front_, suspect);
    host_->send(quarantine_front_, wire::Retire{});  // at rest it is not suspected any more
  };
  calls.refuse = [this](FrontConnection suspect) { table_->add(std::move(suspect)); };
  return calls;
}

FrontRenewal::Calls Fronts::renewal_calls() {
  FrontRenewal::Calls calls;
  calls.on_trial = [this] { return host_->on_trial(); };
  calls.view = [this](std::size_t front) {
    return FrontRenewal::View{
        host_->outdated(front), table_->active(front), table_->spare(front), table_->count(front)};
  };
  calls.retire = [this](std::size_t front) {
    table_->retire(front);
    hand_overs_->go_on();
    host_->send(front, wire::Retire{});
  };
  calls.would_cut = [this](std::size_t front) { return would_cut(front); };
  calls.replace = [this](std::size_t front) { host_->replace(front); };
  return calls;
}

void Fronts::on_ready(std::size_t front) {
  if (draining_) {
    host_->send(front, wire::Drain{false});
  }
  if (answers_end_) {
    host_->send(front, wire::Drain{true});
  }
  if (front == quarantine_front_) {
    return quarantine_->on_ready();
  }
  table_->on_front_ready(front);
  hand_overs_->go_on();
  calls_.on_ready();
  renewal_->advance();
}

// What it has stays with it until it is dead; whoever comes meanwhile does not.
void Fronts::on_killed(std::size_t front) {
  if (front != quarantine_front_) {
    table_->retire(front);
    loop_.post([this] { hand_overs_->go_on(); });  // this may come from inside of it
  }
}

desk::DeskParts Fronts::desk_parts(const FrontsParts& parts) {
  return {
      parts.dispatcher,
      parts.admission,
      parts.metrics,
      steady_clock(),
      [this] { return calls_.accepting(); },
      [this](std::size_t front, const wire::LeaderToFront& record) { host_->send(front, record); },
      [this](Duration wait) {
        const auto flush = [this] {
          loop_.name_callback("tokens to fronts");
          desk_->flush();
        };
        if (wait == Duration::zero()) {
          loop_.post(flush);
        } else {
          flush_timer_ = loop_.call_after(wait, flush);
        }
      },
      [this](std::size_t front, std::uint64_t connection) {
        return table_->has(front, connection);
      },
      [this](std::size_t front) { return host_->behind(front); }};
}

Status Fronts::on_record(std::size_t front, const wire::FrontToLeader& record) {
  loop_.name_callback("a record of a front");
  if (auto status = desk_->on_record(front, record)) {
    return *std::move(status);
  }
  return std::visit(
      Overloaded{[&](const wire::Query& query) {
                   answer(front, query);
                   return ok();
                 },
                 [&](const wire::Disconnected& ended) { return on_disconnected(front, ended); },
                 [&](const wire::Released& released) { return on_released(front, released); },
                 [&](const wire::AtRest& rest) { return on_rest(front, rest); },
                 [&](const wire::FrontTimes& times) {
                   times_[front] = times;
                   return ok();
                 },
                 [&](const auto&) -> Status {
                   return invalid_argument(
                       "a front that has clients speaks of prompts of the command line");
                 }},
      record);
}

Status Fronts::on_disconnected(std::size_t front, const wire::Disconnected& ended) {
  if (!table_->remove(front, ended.connection)) {
    return not_its(ended.connection);
  }
  left_count_.cut += ended.cut ? 1U : 0U;
  disconnect(ended.connection);
  on_left(front);
  return ok();
}

Status Fronts::on_released(std::size_t front, const wire::Released& released) {
  const std::uint64_t id = released.connection;
  auto orphan = table_->release(
      front, id, {released.received_bytes, released.sent_bytes}, running_clock().now());
  if (!orphan) {
    return not_its(id);
  }
  if (const auto account = account_of(id); account && account == orphan->rest) {
    desk_->forget(id);
    put_to_rest(orphan->connection, *account);
    table_->add(std::move(orphan->connection));
  } else {
    disconnect(id);
  }
  on_left(front);
  return ok();
}

Status Fronts::on_rest(std::size_t front, const wire::AtRest& rest) {
  const os::TcpAccount account{rest.received_bytes, rest.sent_bytes};
  if (!table_->rest(front, rest.connection, account, running_clock().now())) {
    return not_its(rest.connection);
  }
  desk_->forget(rest.connection);
  return ok();
}

void Fronts::give(std::size_t front, const FrontConnection& connection) {
  wire::Connect record;
  record.connection = connection.id;
  record.peer = connection.peer;
  record.refusal = connection.refusal;
  record.goes_on = connection.goes_on;
  record.place = host_->has_journal(front) ? connection.place : wire::kNoJournalPlace;
  record.received_bytes = connection.account.received;
  record.sent_bytes = connection.account.sent;
  record.resumes = connection.resumes;
  if (connection.resumes) {
    record.left_at = connection.left_at;
    record.failure = connection.failure;
  } else {
    record.waited_ms = milliseconds_since(connection.waits_since);
  }
  host_->send(front, record, connection.resumes ? connection.journal : nullptr);
}

void Fronts::answer(std::size_t front, const wire::Query& query) {
  const Answer answer = calls_.answer(query.kind);
  std::size_t at = 0;
  do {
    const std::string part = answer.text.substr(at, wire::kMaxReportBytes);
    at += part.size();
    host_->send(front,
                wire::Report{query.query,
                             static_cast<std::uint32_t>(answer.status),
                             part,
                             at == answer.text.size()});
  } while (at < answer.text.size());
}

void Fronts::disconnect(std::uint64_t connection) {
  desk_->forget(connection);
  doors_->closed(connection);
  tell_drained();
}

// One of its connections has ended, or is at rest and was let go of.
void Fronts::on_left(std::size_t front) {
  if (front == quarantine_front_) {
    quarantine_->on_left();
  } else {
    renewal_->advance();
  }
}

Status Fronts::renew(const std::string& program) {
  if (!accounts_) {
    return failed_precondition(
        "fronts are not replaced: on this kernel each would end its connections");
  }
  PHALANX_TRY(os::HeldProgram held,
              os::HeldProgram::open(program.empty() ? host_->program_path() : program));
  host_->use_program(std::move(held));
  renewal_->advance();
  return ok();
}

void Fronts::drain() {
  draining_ = true;
  renewal_->close();
  doors_->stop_accepting();
  for (std::size_t front = 0; front < host_->size(); ++front) {
    host_->send(front, wire::Drain{false});
  }
  tell_drained();
}

void Fronts::end_answers() {
  answers_end_ = true;
  desk_->flush();  // what has been said of requests comes first
  for (std::size_t front = 0; front < host_->size(); ++front) {
    host_->send(front, wire::Drain{true});
  }
  quarantine_->close();
}

// Whether an answer is still being written: fronts that drain shut the sending side down behind one
// that was given to its socket to the end.
bool Fronts::is_sent_to(std::uint64_t connection) const {
  const os::UniqueFd* const socket = doors_->socket(connection);
  if (socket == nullptr) {
    return false;
  }
  const auto account = os::tcp_account(socket->get());
  return account ? !account->shut : account.error().code() == Code::kUnavailable;  // it moves
}

std::size_t Fronts::unanswered() const {
  const std::vector<std::uint64_t> connections = desk_->unanswered();
  return static_cast<std::size_t>(std::ranges::count_if(
      connections, [this](std::uint64_t id) { return desk_->has_open(id) || is_sent_to(id); }));
}

void Fronts::tell_drained() {
  if (draining_ && doors_->connections() == 0 && !std::exchange(drained_told_, true)) {
    loop_.post([this] { calls_.on_drained(); });
  }
}

void Fronts::on_tick() {
  host_->on_tick();
  quarantine_->on_tick();
  renewal_->advance();
  const SteadyTime now = running_clock().now();
  if (table_->any_active() || served_ == SteadyTime{}) {
    served_ = now;
  } else if (now - served_ >= kMaxWait) {
    left_count_.cut += table_->waiting().size();
    drop_unserved({table_->waiting().begin(), table_->waiting().end()});
  }
  if (now - looked_at_ >= kHangUpPeriod) {
    looked_at_ = now;
    drop_left_by_clients();
  }
}

bool Fronts::renewing() const {
  for (std::size_t front = 0; front < quarantine_front_; ++front) {
    if (host_->outdated(front)) {
      return true;
    }
  }
  return host_->on_trial();
}

std::vector<FrontView> Fronts::views() const {
  std::vector<FrontView> views;
  for (std::size_t front = 0; front < host_->size(); ++front) {
    wire::FrontTimes times = times_[front];
    times.long_callbacks += gone_[front].long_callbacks;
    times.log_lines_dropped += gone_[front].log_lines_dropped;
    views.push_back({host_->status(front),
                     table_->active(front),
                     front == quarantine_front_,
                     table_->count(front),
                     times});
  }
  return views;
}

}  // namespace phalanx::keeper
