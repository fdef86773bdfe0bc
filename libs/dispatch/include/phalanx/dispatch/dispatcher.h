// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/dispatch/admission.h"
#include "phalanx/dispatch/choice.h"
#include "phalanx/dispatch/generation.h"
#include "phalanx/dispatch/router.h"
#include "phalanx/wire/link.h"

namespace phalanx::dispatch {

// Sends a message to the current incarnation of a replica. Implemented over ZeroMQ by the leader.
class ReplicaPort {
 public:
  ReplicaPort() = default;
  ReplicaPort(const ReplicaPort&) = delete;
  ReplicaPort& operator=(const ReplicaPort&) = delete;
  virtual ~ReplicaPort() = default;
  [[nodiscard]] virtual wire::Sent send(ReplicaId replica, const wire::LeaderMessage& message) = 0;
};

struct DispatcherOptions {
  Duration wait_for_replica =
      std::chrono::seconds(60);    // how long a choice may wait for a usable replica
  std::uint32_t attempts_max = 5;  // dispatches of one choice before it ends with an error
};

struct DispatcherCounters {
  std::uint64_t dispatches = 0;
  std::uint64_t redispatches = 0;     // attempts beyond the first
  std::uint64_t repeated_tokens = 0;  // tokens at a position already held, dropped
  std::uint64_t stale_updates = 0;    // updates of an ended attempt or request, dropped
  std::uint64_t gaps = 0;             // a token beyond the next position: the attempt is run again
};

// The requests in flight and where each choice runs. Routes, books, accepts tokens, and when a
// replica fails sends its choices on to another one with the tokens produced so far, attempt + 1,
// so that they go on at the same position.
//
// Ownership: borrows router, port and clock; keeps each sink until its request has ended.
// Threads: the loop thread only. Blocks: never.
class Dispatcher {
 public:
  Dispatcher(Router& router, ReplicaPort& port, const Clock& clock, DispatcherOptions options);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;
  ~Dispatcher();

  // Starts a request. The sink hears everything that follows; also an error, if no replica can ever
  // take it.
  RequestId submit(Generation spec, std::shared_ptr<GenerationSink> sink, Admission::Ticket ticket);

  // The client has gone: nothing is called any more and the replicas drop the sequences at their
  // next step boundary.
  void cancel(RequestId id);

  // The sink has found that a choice ends with its token at `position`: the replica drops the
  // sequence, tokens beyond are forgotten. With the last choice the sink's on_done is called from
  // within. Harmless for a choice or request that has ended.
  void stop(RequestId id, std::uint32_t choice, std::uint32_t position);

  void on_token_batch(ReplicaId replica, const wire::TokenBatch& batch);

  // The replica may be given work (again): waiting choices are dispatched.
  void on_replica_ready(ReplicaId replica);

  // The replica's incarnation is over: its attempts are settled and its choices run elsewhere, or
  // wait.
  void on_replica_lost(ReplicaId replica);

  // No replica will ever come back: everything ends with `cause`.
  void fail_all(const Error& cause);

  // At least every 100 ms: retries what waits, ends what waited too long.
  void on_tick();

  [[nodiscard]] std::size_t requests() const { return requests_.size(); }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] const DispatcherCounters& counters() const { return counters_; }

 private:
  struct Request;
  struct Running {
    Choice choice;
    std::optional<ReplicaId> replica;          // where the current attempt runs
    std::optional<ReplicaId> avoid;            // where the last attempt failed
    std::optional<std::uint64_t> fingerprint;  // numerics of the tokens produced so far
    SteadyTime waiting_since{};
  };
  using ChoiceName = std::pair<RequestId, std::uint32_t>;

  void try_dispatch(Request& request, Running& running);
  void wait(Request& request, Running& running);
  void run_again(Request& request, Running& running, const Error& cause);
  void apply(ReplicaId replica, const wire::TokenUpdate& update);
  void accept_token(Request& request, Running& running, const wire::TokenUpdate& update);
  void apply_error(Request& request,
                   Running& running,
                   ReplicaId replica,
                   const wire::TokenUpdate& update);
  bool end_choice(Request& request, Running& running, bool replica_goes_on);
  void settle(Request& request, Running& running);
  void end_attempt(Request& request, Running& running);
  void finish_request(RequestId id);
  void fail_request(RequestId id, const Error& error);
  void dispatch_waiting();
  [[nodiscard]] static wire::SequenceKey key_of(const Request& request, const Running& running);

  Router& router_;
  ReplicaPort& port_;
  const Clock& clock_;
  DispatcherOptions options_;
  DispatcherCounters counters_;
  std::uint64_t next_request_ = 1;
  std::map<RequestId, std::unique_ptr<Request>> requests_;
  std::deque<ChoiceName> waiting_;  // bounded by admission: each request has at most 128 choices
};

}  // namespace phalanx::dispatch
