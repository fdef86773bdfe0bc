// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/dispatcher.h"

#include <algorithm>
#include <string>
#include <utility>

namespace phalanx::dispatch {

struct Dispatcher::Request {
  RequestId id;
  Generation spec;
  std::shared_ptr<GenerationSink> sink;
  Admission::Ticket ticket;
  std::vector<Running> choices;

  [[nodiscard]] bool finished() const {
    return std::all_of(
        choices.begin(), choices.end(), [](const Running& r) { return r.choice.finished(); });
  }
};

Dispatcher::Dispatcher(Router& router,
                       ReplicaPort& port,
                       const Clock& clock,
                       DispatcherOptions options)
    : router_(router), port_(port), clock_(clock), options_(options) {}

Dispatcher::~Dispatcher() = default;

wire::SequenceKey Dispatcher::key_of(const Request& request, const Running& running) {
  return {request.id, ChoiceIndex(running.choice.index()), running.choice.attempt};
}

RequestId Dispatcher::submit(Generation spec,
                             std::shared_ptr<GenerationSink> sink,
                             Admission::Ticket ticket) {
  const RequestId id(next_request_++);
  ticket.correct(spec.prompt_ids.size() + std::uint64_t{spec.stop.max_tokens} * spec.choices);
  auto owned = std::make_unique<Request>(
      Request{id, std::move(spec), std::move(sink), std::move(ticket), {}});
  Request& request = *owned;
  request.choices.reserve(request.spec.choices);
  for (std::uint32_t i = 0; i < request.spec.choices; ++i) {
    request.choices.push_back({Choice(i, request.spec), {}, {}, {}, {}});
  }
  requests_.emplace(id, std::move(owned));
  for (Running& running : request.choices) {
    try_dispatch(request, running);
  }
  return id;
}

void Dispatcher::wait(Request& request, Running& running) {
  if (running.waiting_since == SteadyTime{}) {
    running.waiting_since = clock_.now();
  }
  waiting_.emplace_back(request.id, running.choice.index());
}

void Dispatcher::try_dispatch(Request& request, Running& running) {
  Choice& choice = running.choice;
  choice.attempt = Attempt(choice.attempt.value() + 1);
  const wire::SequenceKey key = key_of(request, running);
  // With n > 1 the prompt is booked once: the other choices share its work when they run on the
  // same replica.
  const std::uint64_t to_compute =
      choice.produced().size() + (choice.index() == 0 ? request.spec.prompt_ids.size() : 0);
  const auto replica = router_.dispatch(
      key, {to_compute, choice.to_generate()}, clock_.now(), running.avoid, running.fingerprint);
  if (!replica) {
    choice.attempt = Attempt(choice.attempt.value() - 1);
    wait(request, running);
    return;
  }
  wire::Submit submit{
      key, request.spec.prompt_ids, choice.produced(), request.spec.sampling, request.spec.stop};
  if (port_.send(*replica, submit) != wire::Sent::kQueued) {
    router_.ledger().settle(*replica, key);
    wait(request, running);
    return;
  }
  ++counters_.dispatches;
  counters_.redispatches += choice.attempt.value() > 1 ? 1U : 0U;
  running.replica = replica;
  running.fingerprint = router_.table().at(*replica).numerics_fingerprint;
  running.waiting_since = {};
}

void Dispatcher::settle(Request& request, Running& running) {
  if (running.replica) {
    router_.ledger().settle(*running.replica, key_of(request, running));
    running.replica.reset();
  }
}

// Ends the current attempt from this side: the replica is told, in case it still runs it.
void Dispatcher::end_attempt(Request& request, Running& running) {
  if (running.replica) {
    // A replica that does not take the message is about to be lost, and the sequence with it.
    static_cast<void>(port_.send(*running.replica, wire::Cancel{key_of(request, running)}));
  }
  settle(request, running);
}

void Dispatcher::run_again(Request& request, Running& running, const Error& cause) {
  running.avoid = running.replica;
  settle(request, running);
  if (running.choice.attempt.value() >= options_.attempts_max) {
    fail_request(request.id,
                 Error(Code::kInternal,
                       "given up after " + std::to_string(running.choice.attempt.value()) +
                           " attempts; the last one: " + cause.message()));
    return;
  }
  try_dispatch(request, running);
}

void Dispatcher::cancel(RequestId id) {
  const auto entry = requests_.find(id);
  if (entry == requests_.end()) {
    return;
  }
  for (Running& running : entry->second->choices) {
    end_attempt(*entry->second, running);
  }
  finish_request(id);
}

void Dispatcher::finish_request(RequestId id) {
  std::erase_if(waiting_, [id](const ChoiceName& name) { return name.first == id; });
  requests_.erase(id);
}

void Dispatcher::fail_request(RequestId id, const Error& error) {
  const auto entry = requests_.find(id);
  if (entry == requests_.end()) {
    return;
  }
  for (Running& running : entry->second->choices) {
    end_attempt(*entry->second, running);
  }
  const std::shared_ptr<GenerationSink> sink = entry->second->sink;
  finish_request(id);
  sink->on_error(error);
}

void Dispatcher::on_token_batch(ReplicaId replica, const wire::TokenBatch& batch) {
  for (const wire::TokenUpdate& update : batch.updates) {
    apply(replica, update);
  }
}

void Dispatcher::apply(ReplicaId replica, const wire::TokenUpdate& update) {
  const auto entry = requests_.find(update.key.request);
  if (entry == requests_.end() || update.key.choice.value() >= entry->second->choices.size()) {
    ++counters_.stale_updates;
    return;
  }
  Request& request = *entry->second;
  Running& running = request.choices[update.key.choice.value()];
  if (running.replica != replica || running.choice.attempt != update.key.attempt) {
    ++counters_.stale_updates;
    return;
  }
  router_.ledger().set(replica, update.key, {update.to_compute, update.to_generate});
  if (update.finish == wire::FinishReason::kError ||
      update.finish == wire::FinishReason::kCancelled) {
    apply_error(request, running, replica, update);
    return;
  }
  if (update.has_token) {
    accept_token(request, running, update);
  }
}

void Dispatcher::accept_token(Request& request, Running& running, const wire::TokenUpdate& update) {
  switch (running.choice.judge(update)) {
    case Choice::Verdict::kRepeat:
      ++counters_.repeated_tokens;
      return;
    case Choice::Verdict::kGap:
      ++counters_.gaps;
      run_again(request, running, internal_error("the replica left out a token"));
      return;
    case Choice::Verdict::kAccepted:
      break;
  }
  TokenEvent event = running.choice.accept(update);
  event.request = request.id;
  const std::shared_ptr<GenerationSink> sink = request.sink;
  bool done = false;
  if (event.finish != wire::FinishReason::kNone) {
    done = end_choice(request, running, update.finish == wire::FinishReason::kNone);
  }
  // The sink may stop the choice or cancel the request: nothing of it is touched afterwards.
  sink->on_token(event);
  if (done) {
    sink->on_done();
  }
}

// The choice is complete; true if its request is too, which then is gone.
bool Dispatcher::end_choice(Request& request, Running& running, bool replica_goes_on) {
  if (running.replica) {
    router_.table().at(*running.replica).breaker.on_success();
  }
  if (replica_goes_on) {
    end_attempt(request, running);
  } else {
    settle(request, running);
  }
  if (!request.finished()) {
    return false;
  }
  finish_request(request.id);
  return true;
}

void Dispatcher::stop(RequestId id, std::uint32_t choice, std::uint32_t position) {
  const auto entry = requests_.find(id);
  if (entry == requests_.end() || choice >= entry->second->choices.size()) {
    return;
  }
  Running& running = entry->second->choices[choice];
  if (running.choice.finished()) {
    return;
  }
  running.choice.stop(position);
  const std::shared_ptr<GenerationSink> sink = entry->second->sink;
  if (end_choice(*entry->second, running, true)) {
    sink->on_done();
  }
}

void Dispatcher::apply_error(Request& request,
                             Running& running,
                             ReplicaId replica,
                             const wire::TokenUpdate& update) {
  const Error error(static_cast<Code>(update.error_code), update.error_message);
  if (update.finish == wire::FinishReason::kError &&
      error_traits(error.code()).retry == Retry::kNever) {
    if (error.code() != Code::kInvalidArgument) {
      router_.table().at(replica).breaker.on_failure(clock_.now());
    }
    settle(request, running);
    fail_request(request.id, error);
    return;
  }
  router_.table().at(replica).breaker.on_failure(clock_.now());
  run_again(request, running, error);
}

void Dispatcher::on_replica_ready(ReplicaId replica) {
  router_.table().at(replica).breaker.reset();
  dispatch_waiting();
}

void Dispatcher::on_replica_lost(ReplicaId replica) {
  std::vector<ChoiceName> lost;
  for (auto& [id, request] : requests_) {
    for (const Running& running : request->choices) {
      if (running.replica == replica) {
        lost.emplace_back(id, running.choice.index());
      }
    }
  }
  router_.ledger().settle_all(replica);
  for (const auto& [id, index] : lost) {
    const auto entry = requests_.find(id);
    if (entry != requests_.end()) {
      run_again(*entry->second, entry->second->choices[index], unavailable("its replica ended"));
    }
  }
}

void Dispatcher::fail_all(const Error& cause) {
  while (!requests_.empty()) {
    fail_request(requests_.begin()->first, cause);
  }
}

void Dispatcher::dispatch_waiting() {
  std::deque<ChoiceName> names;
  names.swap(waiting_);
  for (const auto& [id, index] : names) {
    const auto entry = requests_.find(id);
    if (entry != requests_.end()) {
      try_dispatch(*entry->second, entry->second->choices[index]);
    }
  }
}

void Dispatcher::on_tick() {
  if (waiting_.empty()) {
    return;
  }
  dispatch_waiting();
  const SteadyTime now = clock_.now();
  std::vector<RequestId> late;
  for (const auto& [id, index] : waiting_) {
    if (now - requests_.at(id)->choices[index].waiting_since > options_.wait_for_replica) {
      late.push_back(id);
    }
  }
  for (const RequestId id : late) {
    fail_request(id, unavailable("no replica became ready in time; try again later"));
  }
}

}  // namespace phalanx::dispatch
