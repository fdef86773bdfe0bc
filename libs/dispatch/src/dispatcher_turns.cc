// SPDX-License-Identifier: Apache-2.0
// What is sent in one turn of the loop, and what follows in later ones.
#include "dispatcher_request.h"

namespace phalanx::dispatch {

namespace {

constexpr std::size_t kExpiriesPerTick = 64;

}  // namespace

// The first of each line speaks for its line: the work is that of what is dispatched.
void Dispatcher::dispatch_waiting() {
  for (const Numerics& line : waiting_.lines()) {
    for (auto name = waiting_.first(line); name && !turn_.over(); name = waiting_.first(line)) {
      if (!try_dispatch(*find(*name))) {
        break;
      }
      waiting_.remove(*name);
    }
  }
  if (turn_.over() && waiting_.size() > 0) {
    turn_.ask_for_more();
  }
}

void Dispatcher::dispatch_more() {
  turn_.begin_asked();
  for (Replica& replica : replicas_) {
    if (replica.link.flush()) {
      turn_.ask_for_more();
    }
  }
  if (bench_) {
    send_suspects();
  }
  dispatch_waiting();
}

void Dispatcher::on_tick() {
  turn_.begin();
  for (std::uint32_t i = 0; i < replicas_.size(); ++i) {
    router_.table().at(ReplicaId(i)).blocked = false;
    if (replicas_[i].link.flush()) {
      turn_.ask_for_more();
    }
  }
  end_refused();
  judge_orphans();
  test_suspects();
  dispatch_waiting();
  note_served_lines();
  end_late();
}

// Asked at every tick and not at the end of a wait: that may come in the moment in which the replica
// that served is being started again.
void Dispatcher::note_served_lines() {
  std::map<Numerics, SteadyTime> served;
  for (const Numerics& line : waiting_.lines()) {
    const Running& first = *find(*waiting_.first(line));
    const auto before = served_.find(line);
    if (waits_for_bench(first) || router_.any_serves(clock_.now(), {{}, line, {}})) {
      served.emplace(line, clock_.now());
    } else if (before != served_.end()) {
      served.insert(*before);
    }
  }
  served_ = std::move(served);
}

void Dispatcher::end_late() {
  const SteadyTime limit = clock_.now() - options_.wait_for_replica;
  for (std::size_t i = 0; i < kExpiriesPerTick; ++i) {
    const auto late = waiting_.waiting_since(limit);
    if (!late) {
      return;
    }
    const auto served = served_.find(find(*late)->fingerprint);
    if (served != served_.end() && served->second > limit) {
      waiting_.renew(*late, served->second);  // in a queue that moved
      continue;
    }
    fail_request(late->first, unavailable("no replica became ready in time; try again later"));
  }
}

}  // namespace phalanx::dispatch
