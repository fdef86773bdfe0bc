// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/bisection.h"
#include "phalanx/base/clock.h"
#include "phalanx/dispatch/choice.h"
#include "phalanx/dispatch/generation.h"
#include "phalanx/dispatch/poison_memory.h"
#include "phalanx/dispatch/replica_link.h"
#include "phalanx/dispatch/router.h"
#include "phalanx/dispatch/sending_turn.h"
#include "phalanx/dispatch/waiting_queue.h"

namespace phalanx::dispatch {

// A choice that ended every process that computed it.
struct PoisonedChoice {
  RequestId request;
  std::uint32_t choice = 0;
  const Generation& generation;
  const std::vector<TokenId>& produced;
  const Error& error;
};

struct DispatcherOptions {
  // Of a choice, for a usable one. Not counted are the times in which one serves that has no room,
  // and in which suspects are tried on the one that it waits for: no start of that may take longer.
  Duration wait_for_replica = std::chrono::seconds(60);
  // Hears of a choice before its request ends with kPoisoned. May be empty.
  std::function<void(const PoisonedChoice&)> on_poisoned;
  // dispatch_more() is to follow, in another turn of the loop and not from within. Not empty.
  std::function<void()> on_more;
  // Of prefix hashes: secret, and that of the replicas. None: these keep no prefixes.
  std::optional<std::uint64_t> prefix_key = {};
};

// What leader and replica disagreed about in one walk over all that they hold; it was put right.
struct Difference {
  std::uint64_t unknown = 0;  // the replica had what the leader has ended: cancelled again
  std::uint64_t missing = 0;  // the replica had not what it was sent: dispatched again
};

// The requests in flight and where each choice runs. Routes, books, accepts tokens, and when a
// replica fails sends its choices on to another one with the tokens produced so far, attempt + 1,
// so that they go on at the same position, however often: restarts, signals, full queues and links
// that take nothing are held against no request. Submissions wait, cancellations are kept until a
// link takes them.
//
// A replica that died by what it was doing gets its choices back in halves, and nothing else, until
// each has a token more or one has ended it alone twice, which ends with kPoisoned.
//
// No call looks at all requests or at all that waits; what one sends is bounded by SendingTurn.
//
// Ownership: borrows router and clock; keeps each sink until its request has ended.
// Threads: the loop thread only.
// Blocks: never.
class Dispatcher {
 public:
  Dispatcher(Router& router, SendToReplica send, const Clock& clock, DispatcherOptions options);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;
  ~Dispatcher();

  // Starts a request; but for on_sent() nothing is called from within. The sink hears all of it,
  // also kUnavailable, if no replica takes it in time, or kPoisoned with the next tick, if it is
  // known to end whoever computes it.
  RequestId submit(Generation spec, std::shared_ptr<GenerationSink> sink);

  // The client has gone: nothing is called any more; replicas drop it at their next step boundary.
  void cancel(RequestId id);

  // The sink has found that a choice ends with its token at `position`: the replica drops the
  // sequence, tokens beyond are forgotten. With the last choice the sink's on_done is called from
  // within. Harmless for a choice or request that has ended.
  void stop(RequestId id, std::uint32_t choice, std::uint32_t position);

  void on_token_batch(ReplicaId replica, const wire::TokenBatch& batch);

  // Compares what the replica has with what it was sent, and puts the difference right.
  void on_holding(ReplicaId replica, const wire::ReplicaHolding& holding);

  // The replica may be given work (again): waiting choices are dispatched.
  void on_replica_ready(ReplicaId replica);

  // The replica's incarnation is over: its attempts are settled. Its choices go on as soon as
  // on_replica_died() has told how it ended, or without that after half a second.
  void on_replica_lost(ReplicaId replica);

  // Answers whether it is held against requests. `own`: it died by what it was doing.
  bool on_replica_died(ReplicaId replica, bool own, const std::string& how);

  // It lives, but computes nothing for now: those of its choices that another replica takes go on
  // there. Answers how many; not all in one turn, so it is called until none is left.
  std::size_t relieve(ReplicaId replica);

  // It does not come back: what was to be tried on it runs elsewhere.
  void on_replica_failed(ReplicaId replica);

  // No replica will ever come back: everything ends with `cause`.
  void fail_all(const Error& cause);

  void on_tick();  // at least every 100 ms: retries what waits, ends what waited too long
  void dispatch_more();
  [[nodiscard]] std::size_t requests() const { return requests_.size(); }
  [[nodiscard]] std::size_t waiting() const;  // choices that no replica has
  [[nodiscard]] std::uint64_t redispatches() const { return redispatches_; }  // not first attempts

  // Of the last complete walk.
  [[nodiscard]] const Difference& difference(ReplicaId replica) const {
    return replicas_.at(replica.value()).found;
  }

  // Cancellations that the replica's link has not taken yet.
  [[nodiscard]] std::size_t unsent_cancels(ReplicaId replica) const {
    return replicas_.at(replica.value()).link.unsent();
  }

 private:
  struct Request;
  struct Running;
  // Choices of a lost replica whose death is still to be judged.
  struct Orphans {
    ReplicaId replica;
    SteadyTime since;
    std::vector<ChoiceName> names;
    bool and_others = false;  // it may have run some that had ended for the leader
  };
  struct Replica {
    ReplicaLink link;
    Difference counting;  // of the walk under way
    Difference found;
  };

  [[nodiscard]] bool try_dispatch(Running& running);
  [[nodiscard]] bool send_to(ReplicaId replica, Running& running);
  void dispatch_or_wait(Running& running);
  // The choice waits for its next attempt; dispatch_waiting() follows.
  void run_again(Running& running);
  void go_on(const std::vector<ChoiceName>& names);
  void condemn(const Running& running, const Error& error);
  void end_refused();
  void acquit(Running& running);
  void forget_suspects(RequestId id, std::optional<std::uint32_t> choice = std::nullopt);
  void search_on(std::optional<ReplicaId> bench);
  void abandon_search();
  // It may run on the replica that is reserved for suspects, once that is free again.
  [[nodiscard]] bool waits_for_bench(const Running& running) const;
  void judge_orphans();
  void test_suspects();
  void send_suspects();
  void apply(ReplicaId replica, const wire::TokenUpdate& update);
  void accept_token(Running& running, const wire::TokenUpdate& update);
  void apply_error(Running& running, const wire::TokenUpdate& update);
  bool end_choice(Running& running, bool replica_goes_on);
  void settle(Running& running);
  void end_attempt(Running& running);
  void finish_request(RequestId id);
  void fail_request(RequestId id, const Error& error);
  void dispatch_waiting();
  void cancel_unknown(ReplicaId replica, const wire::ReplicaHolding& holding);
  [[nodiscard]] std::vector<wire::SequenceKey> missing_in(ReplicaId replica,
                                                          const wire::ReplicaHolding& holding);
  void note_served_lines();
  void end_late();
  [[nodiscard]] Running* find(const ChoiceName& name) const;
  [[nodiscard]] std::optional<ReplicaId> only_replica(const ChoiceName& name) const;

  Router& router_;
  SendToReplica send_;
  const Clock& clock_;
  DispatcherOptions options_;
  SendingTurn turn_;
  std::uint64_t next_request_ = 1;
  std::uint64_t redispatches_ = 0;
  std::map<RequestId, std::unique_ptr<Request>> requests_;
  std::vector<Replica> replicas_;
  std::vector<Orphans> orphans_;
  Bisection<ChoiceName> search_;    // among those that a replica died with
  std::set<ChoiceName> suspects_;   // of the search; they wait for their turn, not in the queue
  std::optional<ReplicaId> bench_;  // reserved for those under test
  SteadyTime bench_seen_{};         // ready, at a tick
  PoisonMemory poison_;
  std::vector<RequestId> refused_;  // known poison; their errors come with the next tick
  WaitingQueue waiting_;            // bounded by admission: each request has at most 128 choices
  // By line that is not empty: the last tick at which a replica served it, or suspects were tried.
  std::map<Numerics, SteadyTime> served_;
};

}  // namespace phalanx::dispatch
