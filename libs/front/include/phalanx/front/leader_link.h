// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/result.h"
#include "phalanx/os/control_socket.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/unique_fd.h"
#include "phalanx/serving/request_desk.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::front {

// Hears of what is no request's. Loop thread.
struct LinkCalls {
  // `left`: the journal of the front that left the connection, if it resumes.
  std::function<void(const wire::Connect& connection, os::UniqueFd socket, os::UniqueFd left)>
      on_connect;
  std::function<void(bool answers_end)> on_drain;
  std::function<void()> on_retire;
  // Prompts of the command line, and behind the last of them that they are to be run. Empty in a
  // front that cannot have any: there they are what no leader sends.
  std::function<void(wire::PromptText part)> on_prompt = nullptr;
  std::function<void(const wire::RunPrompts& how)> on_run_prompts = nullptr;
  // Runs before something is done for a connection and, with 0, behind it. May be empty.
  std::function<void(std::uint64_t connection)> mark = nullptr;
  // The leader sends what no leader sends, or takes nothing: the front cannot go on with it.
  std::function<void(const Error& error)> on_broken;
};

// The front's end of its link to the leader, which owns the requests: records in order, kept while
// the link would block. That the leader has gone is noticed elsewhere (os::HangupWatch).
//
// Ownership: borrows loop and socket; keeps each sink until its request ends.
// Threads: the loop thread.
// Blocks: never. What has come is told some events and kTurnTime a turn, and no more is read before;
// what goes, some records a turn.
class LeaderLink final : public serving::RequestDesk {
 public:
  static constexpr std::size_t kEventsPerTurn = 128;
  // Of CPU. An event may end an answer, and write all of it.
  static constexpr Duration kTurnTime = std::chrono::milliseconds(1);
  // Of records that the leader has not taken; beyond it the link is broken. Prompts that wait do
  // not count, nor does what was put out: what was admitted bounds them, and the protocol that.
  static constexpr std::size_t kMaxUnsentBytes = std::size_t{64} << 20;

  LeaderLink(os::EventLoop& loop, os::ControlSocket& socket, LinkCalls calls);
  LeaderLink(const LeaderLink&) = delete;
  LeaderLink& operator=(const LeaderLink&) = delete;
  ~LeaderLink() override;

  // Once: from now on what the leader says is heard.
  // Errors: kResourceExhausted  epoll watches as much as it may
  [[nodiscard]] Status start();

  // RequestDesk
  void admit(const wire::Admit& wish, Answered answered) override;
  void begin(const wire::RequestKey& key,
             const serving::RequestSummary& summary,
             std::vector<serving::GenerationRequest> prompts,
             std::shared_ptr<serving::RequestSink> sink) override;
  void stop(const wire::StopChoice& choice) override;
  void end(const wire::End& ending) override;

  // Asks for something of the server as a whole; `told` hears once, later.
  using Told = std::function<void(int status, std::string text)>;
  void query(wire::QueryKind kind, Told told);

  void send(const wire::FrontToLeader& record);

  // What the prompts of a command line have given, of any size, as PromptsOutputs.
  void put_out(std::string text);

 private:
  struct Asked {
    Told told;
    std::string text;
  };

  struct KeyHash {
    std::size_t operator()(const wire::RequestKey& key) const {
      return mix64(key.connection ^ mix64(key.ordinal));
    }
  };

  // The prompts of a request that has begun, as far as no records have been made of them: those may
  // be longer than all that waits besides.
  struct Prompts {
    wire::RequestKey key;
    std::deque<serving::GenerationRequest> left;
    std::size_t ids_sent = 0;  // of the first
  };

  // In the same way, what was put out.
  struct Output {
    std::string text;
    std::size_t sent = 0;
  };

  void work();
  void read_some();
  void tell_some();
  void on_record(os::ControlMessage message);
  void on_report(const wire::Report& report);
  void on_connect(const wire::Connect& connect, std::vector<os::UniqueFd> fds);
  void on_admitted(const wire::Admitted& admitted);
  void tell(const wire::FrontEvent& event);
  void tell(const wire::History& history);
  [[nodiscard]] static wire::FrontToLeader next_of(Prompts& prompts);
  [[nodiscard]] static wire::FrontToLeader next_of(Output& output);
  void make_next();
  void flush();
  void flush_after(Duration wait);
  void break_up(const Error& error);

  os::EventLoop& loop_;
  os::ControlSocket& socket_;
  LinkCalls calls_;
  std::map<wire::RequestKey, Answered> asking_;
  std::unordered_map<wire::RequestKey, std::shared_ptr<serving::RequestSink>, KeyHash> sinks_;
  std::map<std::uint64_t, Asked> queries_;
  std::uint64_t next_query_ = 1;
  std::vector<wire::FrontEvent> events_;  // of the last record, until all of them are told
  std::size_t events_told_ = 0;           // of them
  std::deque<std::variant<std::string, Prompts, Output>> unsent_;
  std::size_t unsent_bytes_ = 0;  // of the records in it
  bool work_posted_ = false;
  bool broken_ = false;
  std::unique_ptr<os::EventLoop::Handle> readable_;
  std::unique_ptr<os::EventLoop::Handle> retry_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace phalanx::front
