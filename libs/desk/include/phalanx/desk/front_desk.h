// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/desk/event_log.h"
#include "phalanx/desk/request_metrics.h"
#include "phalanx/dispatch/admission.h"
#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::desk {

// What the desk works with. Borrowed parts outlive it.
struct DeskParts {
  dispatch::Dispatcher& dispatcher;
  dispatch::Admission& admission;
  RequestMetrics& metrics;
  const Clock& clock;
  // Why no request may be generated for now (loading, draining, no replica can serve), or nothing.
  std::function<Status()> accepting;
  std::function<void(std::size_t front, const wire::LeaderToFront& record)> send;
  // flush() is to follow in another turn of the loop, or later.
  std::function<void(Duration wait)> flush_later;
  // Whether the front has the connection: nobody else may ask for a place for its requests.
  std::function<bool(std::size_t front, std::uint64_t connection)> has;
  // The front has not taken much of what it was sent: what it is told again waits. May be empty.
  std::function<bool(std::size_t front)> behind = nullptr;
};

// The requests of all fronts: gives places, dispatches what fronts have read, carries tokens back,
// and keeps what is to be logged of a request.
//
// A request outlives its front: it goes on and what happens is kept, and the front that goes on
// with its connection takes it over with the Admit of its key. Begin and prompts that had come
// before come again then and are not taken twice; behind the last of them everything is told from
// the first event on. A request that has ended is kept for that too, as its front may have died
// before it had sent everything. forget() says that nobody will take it over.
//
// Threads: the loop thread.
// Blocks: never.
class FrontDesk {
 public:
  explicit FrontDesk(DeskParts parts);
  FrontDesk(const FrontDesk&) = delete;
  FrontDesk& operator=(const FrontDesk&) = delete;
  ~FrontDesk();

  // A record that is about a request; nothing for one of another kind.
  // Errors: kInvalidArgument for one that no front sends that works; the front is to be ended.
  [[nodiscard]] std::optional<Status> on_record(std::size_t front,
                                                const wire::FrontToLeader& record);
  [[nodiscard]] Status on_admit(std::size_t front, const wire::Admit& wish);
  [[nodiscard]] Status on_begin(std::size_t front, const wire::Begin& begin);
  [[nodiscard]] Status on_prompt_part(std::size_t front, const wire::PromptPart& part);
  [[nodiscard]] Status on_generate(std::size_t front, const wire::Generate& wish);
  void on_stop(std::size_t front, const wire::StopChoice& stop);
  [[nodiscard]] Status on_end(std::size_t front, const wire::End& ending);

  // Its requests are nobody's until they are taken over or forgotten.
  void on_front_gone(std::size_t front);

  // The connection has ended, or is at rest: of its requests those without a front end, and what is
  // kept of ended ones goes. Those that are open and have a front are its own to end.
  void forget(std::uint64_t connection);

  // The same of a connection without a front whose client has left.
  void forget_client(std::uint64_t connection);

  // Sends what has happened since the last call, and a piece of what is told again.
  void flush();

  // Requests whose front has died and that are still to be told what they missed.
  [[nodiscard]] std::size_t taking_over() const;

  // Whether the connection has a request that has a place.
  [[nodiscard]] bool has_open(std::uint64_t connection) const;
  [[nodiscard]] std::size_t open() const { return open_; }  // places given
  // The connections, each once, that have a request with a place, or had one whose answer may not
  // all have been given to its socket. One that is only tokenized counts while it has its place.
  [[nodiscard]] std::vector<std::uint64_t> unanswered() const;

 private:
  struct Job;
  class Sink;
  using Jobs = std::map<wire::RequestKey, std::shared_ptr<Job>>;

  struct Outgoing {
    wire::FrontEvents record;
    std::size_t bytes = 0;
  };

  [[nodiscard]] Job* find(std::size_t front, const wire::RequestKey& key);
  [[nodiscard]] Status take_over(std::size_t front, Job& job);
  void begin_again(Job& job, const wire::Begin& begin);
  void generate_again(Job& job, const wire::Generate& wish);
  void refuse_other(Job& job);
  void tell_again(Job& job);
  void push_again();
  [[nodiscard]] bool push_some_again(Job& job, std::size_t* left);
  [[nodiscard]] bool tell_history(Job& job, std::size_t* left);
  void end_again(Job& job);
  void drop_left(std::uint64_t connection, std::uint32_t except);
  [[nodiscard]] bool leave(Job& job);
  void dispatch(Job& job, const wire::Generate& wish);
  void refuse(std::size_t front, const wire::Admit& wish, const Error& error);
  void on_token(Job& job, std::uint32_t prompt, const dispatch::TokenEvent& token);
  void fail(Job& job, const Error& error);
  void tell_failure(Job& job, const Error& error);
  void tell(Job& job, wire::FrontEvent event);
  void put_out(std::size_t front, wire::FrontEvent event);
  void ask_for_flush();
  void finish(Job& job, const std::string& outcome, const std::string& error);
  Jobs::iterator erase(Jobs::iterator entry);
  void drop_some();

  DeskParts parts_;
  Jobs jobs_;                                           // also ended ones
  std::size_t open_ = 0;                                // of them
  std::deque<EventLog> dropped_;                        // of erased ones
  std::map<std::size_t, std::deque<Outgoing>> outbox_;  // by front
  std::deque<std::shared_ptr<Job>> again_;              // of Telling::kAgain, and some that were
  bool flush_asked_ = false;
};

}  // namespace phalanx::desk
