// SPDX-License-Identifier: Apache-2.0
// What becomes of the choices of a replica that died or computes nothing.
#include <algorithm>
#include <string>
#include <utility>

#include "dispatcher_request.h"

namespace phalanx::dispatch {

namespace {

// How a replica ended is known when it is reaped. Nobody waits longer for that.
constexpr Duration kVerdictWait = std::chrono::milliseconds(500);

}  // namespace

void Dispatcher::on_replica_lost(ReplicaId replica) {
  Orphans lost{replica, clock_.now(), {}, replicas_.at(replica.value()).link.any_leaving()};
  replicas_.at(replica.value()).link.reset();
  replicas_.at(replica.value()).counting = {};
  replicas_.at(replica.value()).found = {};
  router_.table().at(replica).blocked = false;
  for (const wire::SequenceKey& key : router_.lose(replica)) {
    Running* const running = find(name_of(key));
    if (running != nullptr && running->replica == replica) {
      running->avoid = running->replica;
      running->replica.reset();
      lost.names.push_back(running->name());
    }
  }
  if (!lost.names.empty()) {
    orphans_.push_back(std::move(lost));
  }
}

bool Dispatcher::on_replica_died(ReplicaId replica, bool own, const std::string& how) {
  std::vector<ChoiceName> names;
  bool and_others = false;
  for (const Orphans& lost : orphans_) {
    if (lost.replica == replica) {
      names.insert(names.end(), lost.names.begin(), lost.names.end());
      and_others = and_others || lost.and_others;
    }
  }
  std::erase_if(orphans_, [&](const Orphans& lost) { return lost.replica == replica; });
  const auto ended = std::erase_if(names, [&](const ChoiceName& name) {
    const Running* const running = find(name);
    return running == nullptr || running->choice.finished();
  });
  and_others = and_others || ended > 0;
  if (!own || names.empty()) {
    go_on(names);
    return false;
  }
  const std::optional<ChoiceName> culprit = search_.blame(names, and_others);
  suspects_.insert(names.begin(), names.end());
  if (culprit) {
    suspects_.erase(*culprit);
  }
  search_on(search_.active() ? std::optional(replica) : std::nullopt);
  for (const ChoiceName& name : suspects_) {
    // Those that an earlier search was trying elsewhere.
    if (Running* const running = find(name); running != nullptr) {
      end_attempt(*running);
    }
  }
  if (culprit) {
    condemn(*find(*culprit),
            Error(Code::kPoisoned,
                  "this request ended the replica that ran it twice while it ran alone; it is not "
                  "tried again. The last time: " +
                      how));
  }
  return true;
}

// Those of a replica whose end is not judged yet, and suspects, are in no queue.
std::size_t Dispatcher::waiting() const {
  const auto has_none = [this](const ChoiceName& name) {
    const Running* const running = find(name);
    return running != nullptr && !running->choice.finished() && !running->replica;
  };
  std::size_t waiting =
      waiting_.size() + static_cast<std::size_t>(std::ranges::count_if(suspects_, has_none));
  for (const Orphans& lost : orphans_) {
    waiting +=
        static_cast<std::size_t>(std::ranges::count_if(lost.names, [&](const ChoiceName& name) {
          return !suspects_.contains(name) && has_none(name);
        }));
  }
  return waiting;
}

// All that run there are of its numerics: where the first finds no replica, none does. Suspects are
// tried on their bench or nowhere.
std::size_t Dispatcher::relieve(ReplicaId replica) {
  std::size_t moved = 0;
  if (router_.table().usable(replica, clock_.now())) {
    return moved;  // it goes on
  }
  const auto& open = router_.ledger().open(replica);
  while (!open.empty() && bench_ != replica && !turn_.over()) {
    const wire::SequenceKey key = open.begin()->first;
    Running* const running = find(name_of(key));
    // Nobody overtakes those who wait for the same replicas.
    if (running == nullptr || waiting_.first(running->fingerprint) || !try_dispatch(*running)) {
      break;
    }
    replicas_.at(replica.value()).link.cancel(key);
    router_.settle(replica, key);
    ++moved;
  }
  return moved;
}

void Dispatcher::on_replica_failed(ReplicaId replica) {
  if (bench_ == replica) {
    abandon_search();
  }
}

// They run where there is room, or wait for their turn.
void Dispatcher::go_on(const std::vector<ChoiceName>& names) {
  for (const ChoiceName& name : names) {
    const Running* const running = find(name);
    if (running != nullptr && !running->choice.finished() && !running->replica &&
        !suspects_.contains(name)) {
      waiting_.add(name, running->fingerprint, clock_.now());
    }
  }
  dispatch_waiting();
}

void Dispatcher::condemn(const Running& running, const Error& error) {
  const Request& request = running.request;
  if (options_.on_poisoned) {
    options_.on_poisoned(
        {request.id, running.choice.index(), request.spec, running.choice.produced(), error});
  }
  poison_.add(request.spec, running.choice.index(), running.choice.produced().size(), clock_.now());
  fail_request(request.id, error);
}

void Dispatcher::end_refused() {
  for (const RequestId id : std::exchange(refused_, {})) {
    fail_request(
        id,
        Error(Code::kPoisoned,
              "a request of the same tokens and parameters ended whoever computed it; such "
              "requests are refused for some minutes after that"));
  }
}

// It has a token more than when its replica died. Whoever goes on beside those that are still under
// test would be suspect with them again.
void Dispatcher::acquit(Running& running) {
  const ChoiceName name = running.name();
  if (suspects_.erase(name) == 0) {
    return;
  }
  search_.progressed(name);
  if (!search_.active()) {
    search_on(std::nullopt);
  } else if (!running.choice.finished()) {
    end_attempt(running);
    waiting_.add(name, running.fingerprint, clock_.now());
  }
}

// Of a request that is gone, or of which one choice has ended by itself.
void Dispatcher::forget_suspects(RequestId id, std::optional<std::uint32_t> choice) {
  if (!search_.knows_any()) {
    return;
  }
  const auto is_gone = [&](const ChoiceName& name) {
    return name.first == id && (!choice || name.second == *choice);
  };
  search_.keep([&](const ChoiceName& name) { return !is_gone(name); });
  std::erase_if(suspects_, is_gone);
  if (!search_.active()) {
    search_on(std::nullopt);
  }
}

void Dispatcher::search_on(std::optional<ReplicaId> bench) {
  if (bench_) {
    router_.table().at(*bench_).reserved = false;
  }
  bench_ = bench;
  if (bench_) {
    router_.table().at(*bench_).reserved = true;
    bench_seen_ = clock_.now();
  }
}

// A search ends, or gives up a bench that stays away, by itself.
bool Dispatcher::waits_for_bench(const Running& running) const {
  return bench_ && (!running.fingerprint ||
                    router_.table().at(*bench_).numerics_fingerprint == *running.fingerprint);
}

void Dispatcher::abandon_search() {
  const std::vector<ChoiceName> released(suspects_.begin(), suspects_.end());
  suspects_.clear();
  while (search_.active()) {
    search_.progressed(*search_.testing().begin());
  }
  search_on(std::nullopt);
  go_on(released);
}

void Dispatcher::judge_orphans() {
  std::vector<ChoiceName> names;
  std::erase_if(orphans_, [&](const Orphans& lost) {
    const bool late = clock_.now() - lost.since >= kVerdictWait;
    if (late) {
      names.insert(names.end(), lost.names.begin(), lost.names.end());
    }
    return late;
  });
  go_on(names);
}

void Dispatcher::test_suspects() {
  if (!bench_) {
    return;
  }
  const ReplicaEntry& bench = router_.table().at(*bench_);
  const std::set<ChoiceName> testing = search_.testing();
  const bool takes_any = std::any_of(testing.begin(), testing.end(), [&](const ChoiceName& name) {
    const Running* const running = find(name);
    return running != nullptr && waits_for_bench(*running);
  });
  if (takes_any && (bench.ready || router_.table().usable(*bench_, clock_.now()))) {
    bench_seen_ = clock_.now();
  }
  const bool others_may = bench.draining && router_.table().any_open();
  if (others_may || clock_.now() - bench_seen_ >= options_.wait_for_replica) {
    abandon_search();
    return;
  }
  send_suspects();
}

void Dispatcher::send_suspects() {
  const std::set<ChoiceName> testing = search_.testing();
  for (const ChoiceName& name : testing) {
    if (turn_.over()) {
      turn_.ask_for_more();
      return;
    }
    Running* const running = find(name);
    if (running != nullptr && !running->replica) {
      static_cast<void>(try_dispatch(*running));
    }
  }
}

}  // namespace phalanx::dispatch
