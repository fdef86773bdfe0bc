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
    : router_(router), clock_(clock), options_(options) {
  for (std::uint32_t i = 0; i < router.table().size(); ++i) {
    replicas_.push_back({ReplicaLink(ReplicaId(i), port), {}, {}});
  }
}

Dispatcher::~Dispatcher() = default;

wire::SequenceKey Dispatcher::key_of(const Request& request, const Running& running) {
  return {request.id, ChoiceIndex(running.choice.index()), running.choice.attempt};
}

Dispatcher::Running* Dispatcher::find(const ChoiceName& name, Request** request) {
  const auto entry = requests_.find(name.first);
  if (entry == requests_.end() || name.second >= entry->second->choices.size()) {
    return nullptr;
  }
  *request = entry->second.get();
  return &entry->second->choices[name.second];
}

RequestId Dispatcher::submit(Generation spec, std::shared_ptr<GenerationSink> sink) {
  const RequestId id(next_request_++);
  auto owned = std::make_unique<Request>(Request{id, std::move(spec), std::move(sink), {}});
  Request& request = *owned;
  request.choices.reserve(request.spec.choices);
  for (std::uint32_t i = 0; i < request.spec.choices; ++i) {
    request.choices.push_back({Choice(i, request.spec), {}, 0, {}, {}});
  }
  requests_.emplace(id, std::move(owned));
  for (Running& running : request.choices) {
    dispatch_or_wait(request, running);
  }
  return id;
}

void Dispatcher::dispatch_or_wait(Request& request, Running& running) {
  // Nobody overtakes those who wait for the same replicas.
  if (waiting_.first(running.fingerprint) || !try_dispatch(request, running)) {
    waiting_.add({request.id, running.choice.index()}, running.fingerprint, clock_.now());
  }
}

// True if a replica has it now. A link that takes nothing is left alone until the next tick.
bool Dispatcher::try_dispatch(Request& request, Running& running) {
  Choice& choice = running.choice;
  choice.attempt = Attempt(choice.attempt.value() + 1);
  const wire::SequenceKey key = key_of(request, running);
  // With n > 1 the prompt is booked once: the other choices share its work when they run on the
  // same replica.
  const std::uint64_t to_compute =
      choice.produced().size() + (choice.index() == 0 ? request.spec.prompt_ids.size() : 0);
  while (const auto replica = router_.dispatch(key,
                                               {to_compute, choice.to_generate()},
                                               clock_.now(),
                                               running.avoid,
                                               running.fingerprint)) {
    if (send_to(*replica, request, running)) {
      return true;
    }
    router_.settle(*replica, key);
    router_.table().at(*replica).blocked = true;
  }
  choice.attempt = Attempt(choice.attempt.value() - 1);
  return false;
}

bool Dispatcher::send_to(ReplicaId replica, Request& request, Running& running) {
  const Choice& choice = running.choice;
  const auto effect = replicas_.at(replica.value())
                          .link.submit(wire::Submit{key_of(request, running),
                                                    request.spec.prompt_ids,
                                                    choice.produced(),
                                                    request.spec.sampling,
                                                    request.spec.stop});
  if (!effect) {
    return false;
  }
  ++counters_.dispatches;
  counters_.redispatches += choice.attempt.value() > 1 ? 1U : 0U;
  running.replica = replica;
  running.effect = *effect;
  running.fingerprint = router_.table().at(replica).numerics_fingerprint;
  return true;
}

void Dispatcher::settle(Request& request, Running& running) {
  if (running.replica) {
    router_.settle(*running.replica, key_of(request, running));
    running.replica.reset();
  }
}

// Ends the current attempt from this side: the replica is told, in case it still runs it.
void Dispatcher::end_attempt(Request& request, Running& running) {
  if (running.replica) {
    replicas_.at(running.replica->value()).link.cancel(key_of(request, running));
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
  waiting_.add({request.id, running.choice.index()}, running.fingerprint, clock_.now());
}

// The same for an attempt by its key, if it is still the one that runs there.
void Dispatcher::run_again(const wire::SequenceKey& key, ReplicaId replica, const Error& cause) {
  Request* request = nullptr;
  Running* running = find({key.request, key.choice.value()}, &request);
  if (running != nullptr && running->replica == replica && running->choice.attempt == key.attempt) {
    run_again(*request, *running, cause);
  }
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
  const auto entry = requests_.find(id);
  for (const Running& running : entry->second->choices) {
    waiting_.remove({id, running.choice.index()});
  }
  requests_.erase(entry);
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
  dispatch_waiting();
}

void Dispatcher::apply(ReplicaId replica, const wire::TokenUpdate& update) {
  Request* found = nullptr;
  Running* const at = find({update.key.request, update.key.choice.value()}, &found);
  if (at == nullptr) {
    ++counters_.stale_updates;
    return;
  }
  Request& request = *found;
  Running& running = *at;
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
  router_.table().at(*running.replica).breaker.on_token(update.key);
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
  waiting_.remove({id, choice});
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
  replicas_.at(replica.value()).link.reset();
  replicas_.at(replica.value()).counting = {};
  replicas_.at(replica.value()).found = {};
  router_.table().at(replica).blocked = false;
  for (const wire::SequenceKey& key : router_.lose(replica)) {
    run_again(key, replica, unavailable("its replica ended"));
  }
  dispatch_waiting();
}

void Dispatcher::on_holding(ReplicaId replica, const wire::ReplicaHolding& holding) {
  Replica& known = replicas_.at(replica.value());
  known.link.on_handled(holding.effects);
  const auto& open = router_.ledger().open(replica);
  std::vector<wire::SequenceKey> unknown;
  for (const wire::SequenceKey& key : holding.keys) {
    if (!open.contains(key) && !known.link.leaving(key)) {
      unknown.push_back(key);
    }
  }
  std::vector<wire::SequenceKey> missing;
  for (auto entry = open.upper_bound(holding.after); entry != open.end(); ++entry) {
    const wire::SequenceKey& key = entry->first;
    if (!holding.to_end && (holding.keys.empty() || holding.keys.back() < key)) {
      break;
    }
    Request* request = nullptr;
    const Running* running = find({key.request, key.choice.value()}, &request);
    // What was sent later than the replica had read when it told this is on its way.
    if (running != nullptr && running->effect <= holding.effects &&
        !std::binary_search(holding.keys.begin(), holding.keys.end(), key)) {
      missing.push_back(key);
    }
  }
  known.counting.unknown += unknown.size();
  known.counting.missing += missing.size();
  if (holding.to_end) {
    known.found = std::exchange(known.counting, {});
  }
  for (const wire::SequenceKey& key : unknown) {
    known.link.cancel(key);
  }
  for (const wire::SequenceKey& key : missing) {
    run_again(key, replica, internal_error("its replica did not have it any more"));
  }
  dispatch_waiting();
}

void Dispatcher::fail_all(const Error& cause) {
  while (!requests_.empty()) {
    fail_request(requests_.begin()->first, cause);
  }
}

// The first of each line speaks for its line: the work is that of what is dispatched.
void Dispatcher::dispatch_waiting() {
  std::size_t left = kDispatchesPerCall;
  for (const Fingerprint& line : waiting_.lines()) {
    for (auto name = waiting_.first(line); name && left > 0; name = waiting_.first(line), --left) {
      Request* request = nullptr;
      Running* const running = find(*name, &request);
      if (!try_dispatch(*request, *running)) {
        break;
      }
      waiting_.remove(*name);
    }
  }
}

void Dispatcher::on_tick() {
  for (std::uint32_t i = 0; i < replicas_.size(); ++i) {
    router_.table().at(ReplicaId(i)).blocked = false;
    replicas_[i].link.flush();
  }
  dispatch_waiting();
  const SteadyTime limit = clock_.now() - options_.wait_for_replica;
  for (std::size_t i = 0; i < kDispatchesPerCall; ++i) {
    const auto late = waiting_.waiting_since(limit);
    if (!late) {
      return;
    }
    fail_request(late->first, unavailable("no replica became ready in time; try again later"));
  }
}

}  // namespace phalanx::dispatch
