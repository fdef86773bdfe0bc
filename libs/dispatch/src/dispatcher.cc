// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/dispatcher.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "phalanx/step/prefix_hash.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/error_text.h"

#include "dispatcher_request.h"

namespace phalanx::dispatch {

namespace {

// A token left out, or a sequence lost, is a defect of the replica, which time does not mend.
constexpr std::uint32_t kMaxGaps = 3;

}  // namespace

Dispatcher::Dispatcher(Router& router,
                       SendToReplica send,
                       const Clock& clock,
                       DispatcherOptions options)
    : router_(router),
      send_(std::move(send)),
      clock_(clock),
      options_(std::move(options)),
      turn_(options_.on_more) {
  for (std::uint32_t i = 0; i < router.table().size(); ++i) {
    replicas_.push_back({ReplicaLink(ReplicaId(i), send_), {}, {}});
  }
}

Dispatcher::~Dispatcher() = default;

Dispatcher::Running* Dispatcher::find(const ChoiceName& name) const {
  const auto entry = requests_.find(name.first);
  if (entry == requests_.end() || name.second >= entry->second->choices.size()) {
    return nullptr;
  }
  return &entry->second->choices[name.second];
}

RequestId Dispatcher::submit(Generation spec, std::shared_ptr<GenerationSink> sink) {
  const RequestId id(next_request_++);
  auto owned =
      std::make_unique<Request>(Request{id, std::move(spec), std::move(sink), clock_.now()});
  Request& request = *owned;
  if (options_.prefix_key) {
    step::extend_prefix_hashes(
        *options_.prefix_key, request.spec.cache_salt, request.spec.prompt_ids, request.prefix);
  }
  request.choices.reserve(request.spec.choices);
  for (std::uint32_t i = 0; i < request.spec.choices; ++i) {
    request.choices.push_back({request, Choice(i, request.spec)});
  }
  requests_.emplace(id, std::move(owned));
  if (poison_.knows(request.spec, clock_.now())) {
    refused_.push_back(id);
    return id;
  }
  for (Running& running : request.choices) {
    dispatch_or_wait(running);
  }
  return id;
}

void Dispatcher::dispatch_or_wait(Running& running) {
  // Nobody overtakes those who wait for the same replicas.
  if (waiting_.first(running.fingerprint) || turn_.over() || !try_dispatch(running)) {
    waiting_.add(running.name(), running.fingerprint, clock_.now());
  }
  if (turn_.over()) {
    turn_.ask_for_more();
  }
}

// A suspect runs on the replica that is reserved for such.
std::optional<ReplicaId> Dispatcher::only_replica(const ChoiceName& name) const {
  return suspects_.contains(name) ? bench_ : std::nullopt;
}

// True if a replica has it now. A link that takes nothing is left alone until the next tick, or
// until its replica has handled some of what fills it.
bool Dispatcher::try_dispatch(Running& running) {
  const Request& request = running.request;
  Choice& choice = running.choice;
  choice.attempt = Attempt(choice.attempt.value() + 1);
  const wire::SequenceKey key = running.key();
  Work work;
  work.prompt_tokens = request.spec.prompt_ids.size();
  work.remainder = {work.prompt_tokens + choice.produced().size(), choice.to_generate()};
  work.prefix = request.prefix;
  // The choices of a request share its prompt where they run on the same replica.
  if (options_.prefix_key && choice.index() > 0) {
    work.computes_prompt = request.choices.front().replica;
  }
  const Where where{running.avoid, running.fingerprint, only_replica(running.name())};
  while (const auto replica = router_.dispatch(key, work, clock_.now(), where)) {
    if (send_to(*replica, running)) {
      return true;
    }
    router_.settle(*replica, key);
    router_.table().at(*replica).blocked = true;
  }
  choice.attempt = Attempt(choice.attempt.value() - 1);
  return false;
}

bool Dispatcher::send_to(ReplicaId replica, Running& running) {
  const Generation& spec = running.request.spec;
  const Choice& choice = running.choice;
  const SteadyTime sent = clock_.now();  // before the replica can have it
  const auto effect = replicas_.at(replica.value())
                          .link.submit(wire::Submit{running.key(),
                                                    spec.prompt_ids,
                                                    choice.produced(),
                                                    spec.sampling,
                                                    spec.stop,
                                                    spec.cache_salt});
  if (!effect) {
    return false;
  }
  turn_.spend(spec.prompt_ids.size() + choice.produced().size());
  redispatches_ += choice.attempt.value() > 1 ? 1U : 0U;
  running.replica = replica;
  running.effect = *effect;
  running.fingerprint = router_.table().at(replica).numerics_fingerprint;
  running.sent = sent;
  running.request.sink->on_sent(replica, choice.attempt);
  return true;
}

void Dispatcher::settle(Running& running) {
  if (running.replica) {
    router_.settle(*running.replica, running.key());
    running.replica.reset();
  }
}

// Ends the current attempt from this side: the replica is told, in case it still runs it.
void Dispatcher::end_attempt(Running& running) {
  if (running.replica) {
    ReplicaLink& link = replicas_.at(running.replica->value()).link;
    link.cancel(running.key());
    if (link.unsent() > 0) {
      turn_.ask_for_more();
    }
  }
  settle(running);
}

void Dispatcher::run_again(Running& running) {
  running.avoid = running.replica;
  settle(running);
  if (!suspects_.contains(running.name())) {
    waiting_.add(running.name(), running.fingerprint, clock_.now());
  }
}

void Dispatcher::cancel(RequestId id) {
  if (requests_.contains(id)) {
    finish_request(id);
  }
}

// Nothing runs of it afterwards, and nothing waits.
void Dispatcher::finish_request(RequestId id) {
  const auto entry = requests_.find(id);
  for (Running& running : entry->second->choices) {
    end_attempt(running);
    waiting_.remove(running.name());
  }
  requests_.erase(entry);
  forget_suspects(id);
}

void Dispatcher::fail_request(RequestId id, const Error& error) {
  const auto entry = requests_.find(id);
  if (entry == requests_.end()) {
    return;
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
  Running* const running = find(name_of(update.key));
  if (running == nullptr || running->replica != replica ||
      running->choice.attempt != update.key.attempt) {
    return;  // of an attempt that has ended
  }
  router_.report(replica, update.key, {update.to_compute, update.to_generate});
  if (update.finish == step::FinishReason::kError ||
      update.finish == step::FinishReason::kCancelled) {
    apply_error(*running, update);
    return;
  }
  if (update.has_token) {
    accept_token(*running, update);
  }
}

void Dispatcher::accept_token(Running& running, const wire::TokenUpdate& update) {
  switch (running.choice.judge(update)) {
    case Choice::Verdict::kRepeat:
      return;
    case Choice::Verdict::kGap:
      if (++running.gaps == kMaxGaps) {
        fail_request(running.request.id,
                     internal_error("replicas left out tokens of this request"));
      } else {
        run_again(running);
      }
      return;
    case Choice::Verdict::kAccepted:
      break;
  }
  router_.table().at(*running.replica).breaker.on_token(update.key);
  TokenEvent event = running.choice.accept(update);
  if (event.position == 0) {
    event.queue_time =
        running.sent - running.request.submitted + std::chrono::microseconds(update.queue_us);
    event.prefill_time = std::chrono::microseconds(update.prefill_us);
  }
  const std::shared_ptr<GenerationSink> sink = running.request.sink;
  bool done = false;
  if (event.finish != step::FinishReason::kNone) {
    done = end_choice(running, update.finish == step::FinishReason::kNone);
  }
  if (!done) {
    acquit(running);
  }
  // The sink may stop the choice or cancel the request: nothing of it is touched afterwards.
  sink->on_token(event);
  if (done) {
    sink->on_done();
  }
}

// The choice is complete; true if its request is too, which then is gone.
bool Dispatcher::end_choice(Running& running, bool replica_goes_on) {
  if (running.replica) {
    router_.table().at(*running.replica).breaker.on_success();
  }
  if (replica_goes_on) {
    end_attempt(running);
  } else {
    settle(running);
  }
  if (!running.request.finished()) {
    return false;
  }
  finish_request(running.request.id);
  return true;
}

void Dispatcher::stop(RequestId id, std::uint32_t choice, std::uint32_t position) {
  Running* const running = find({id, choice});
  if (running == nullptr || running->choice.finished()) {
    return;
  }
  running->choice.stop(position);
  waiting_.remove({id, choice});
  forget_suspects(id, choice);
  const std::shared_ptr<GenerationSink> sink = running->request.sink;
  if (end_choice(*running, true)) {
    sink->on_done();
  }
}

void Dispatcher::apply_error(Running& running, const wire::TokenUpdate& update) {
  ReplicaEntry& replica = router_.table().at(*running.replica);
  const Error error = wire::error_of(update.error_code, update.error_message);
  const bool failed = update.finish == step::FinishReason::kError;
  if (failed && error.code() == Code::kPoisoned) {
    settle(running);
    condemn(running, error);
    return;
  }
  if (failed && error.code() == Code::kResourceExhausted) {
    replica.blocked = true;  // full, which is no failure
    run_again(running);
    return;
  }
  if (failed && error_traits(error.code()).retry == Retry::kNever) {
    if (error.code() != Code::kInvalidArgument) {
      replica.breaker.on_failure(clock_.now());
    }
    settle(running);
    fail_request(running.request.id, error);
    return;
  }
  replica.breaker.on_failure(clock_.now());
  run_again(running);
}

void Dispatcher::on_replica_ready(ReplicaId replica) {
  router_.table().at(replica).breaker.reset();
  dispatch_waiting();
}

void Dispatcher::on_holding(ReplicaId replica, const wire::ReplicaHolding& holding) {
  Replica& known = replicas_.at(replica.value());
  const bool was_full = known.link.full();
  known.link.on_handled(holding.effects);
  if (was_full && !known.link.full()) {
    router_.table().at(replica).blocked = false;
  }
  cancel_unknown(replica, holding);
  const std::vector<wire::SequenceKey> missing = missing_in(replica, holding);
  known.counting.missing += missing.size();
  if (holding.to_end) {
    known.found = std::exchange(known.counting, {});
  }
  for (const wire::SequenceKey& key : missing) {
    Running* const running = find(name_of(key));
    if (running == nullptr || running->replica != replica) {
      continue;
    }
    if (++running->gaps == kMaxGaps) {
      fail_request(key.request, internal_error("replicas lost this request again and again"));
    } else {
      run_again(*running);
    }
  }
  dispatch_waiting();
}

// What the replica has and should not.
void Dispatcher::cancel_unknown(ReplicaId replica, const wire::ReplicaHolding& holding) {
  Replica& known = replicas_.at(replica.value());
  const auto& open = router_.ledger().open(replica);
  for (const wire::SequenceKey& key : holding.keys) {
    if (!open.contains(key) && !known.link.leaving(key)) {
      ++known.counting.unknown;
      known.link.cancel(key);
    }
  }
}

// What the replica should have and has not, of the part that it tells of. What was sent later than
// it had read when it told this is on its way.
std::vector<wire::SequenceKey> Dispatcher::missing_in(ReplicaId replica,
                                                      const wire::ReplicaHolding& holding) {
  std::vector<wire::SequenceKey> missing;
  const auto& open = router_.ledger().open(replica);
  for (auto entry = open.upper_bound(holding.after); entry != open.end(); ++entry) {
    const wire::SequenceKey& key = entry->first;
    if (!holding.to_end && (holding.keys.empty() || holding.keys.back() < key)) {
      break;
    }
    const Running* const running = find(name_of(key));
    if (running != nullptr && running->effect <= holding.effects &&
        !std::binary_search(holding.keys.begin(), holding.keys.end(), key)) {
      missing.push_back(key);
    }
  }
  return missing;
}

void Dispatcher::fail_all(const Error& cause) {
  while (!requests_.empty()) {
    fail_request(requests_.begin()->first, cause);
  }
}

}  // namespace phalanx::dispatch
