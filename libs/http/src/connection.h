// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "asio.h"
#include "output_queue.h"
#include "server_core.h"

namespace phalanx::http {

// One client: reads requests one at a time, runs the handler, writes its answer.
//
// Ownership: lives in ServerCore::connections while it is open; exchanges and pending socket
// operations hold it too.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerCore> core, Tcp::socket socket, ConnectionInfo info);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() = default;

  // Reads requests, or, if the connection is refused, answers 503 without reading, and closes. One
  // that was left in the middle of something goes on there.
  void start();

  // This process did not run for so long, and has not heard what came meanwhile.
  void postpone(Duration time);

  // Checks deadlines and sends comments; called every few milliseconds.
  void tick(SteadyTime time);

  // Ends the connection once nothing is under way on it.
  void close_when_idle();

  // Lets go of it if it is at rest. True: it is gone.
  bool release_at_rest();

  // Ends it now. The client of an incomplete answer counts as gone.
  void abort();

  // The server's deadline has come: a request that is not complete, or whose answer has not begun,
  // is answered 503.
  void end_awaited();

  // Ends it now, without a word to anyone: the server is being destroyed.
  void discard();

  // The calls of Exchange; `serial` names the request, so that a stale handle does nothing.
  void respond(std::uint64_t serial, Response response);
  void start_stream(std::uint64_t serial, int status, const Headers& headers);
  void write(std::uint64_t serial, std::string data);
  void finish(std::uint64_t serial);
  void on_close(std::uint64_t serial, std::function<void()> callback);
  void handle_dropped(std::uint64_t serial);
  [[nodiscard]] bool is_current(std::uint64_t serial) const;
  [[nodiscard]] const Resumed* resumed(std::uint64_t serial) const;
  void note(std::uint64_t serial, const HandlerNotes& notes);
  void hold(std::uint64_t serial, std::size_t bytes);
  [[nodiscard]] std::size_t pending_bytes() const { return output_.bytes(); }

 private:
  enum class Phase { kIdle, kHeader, kBody, kAnswering, kLingering, kClosed };
  enum class Answer { kNone, kAwaited, kStreaming };

  void wait_readable();
  void on_readable();
  [[nodiscard]] std::span<char> receive_room();
  void forget_empty_lines();
  void on_peer_closed();
  void pump();
  [[nodiscard]] bool read_request();
  [[nodiscard]] bool see_request();
  void read();
  void drop_body();

  // What it makes the server hold, and whether it may be read from.
  [[nodiscard]] std::size_t copies() const;
  [[nodiscard]] std::size_t bytes_held() const;
  void account();
  [[nodiscard]] bool may_read();
  [[nodiscard]] bool admit_body();
  [[nodiscard]] MemoryBudget::Standing standing() const;
  void wait_for(std::size_t bytes, MemoryBudget::Standing wanted);
  void go_on_reading();
  void refuse_for_memory();

  void dispatch();
  void refuse(int status, const std::string& message);
  void send(Response response);
  void complete_answer();
  // What several events of one turn write to a client goes to its socket in one call, and a turn is
  // for a few clients.
  void flush_soon();
  static void flush_some(const std::shared_ptr<ServerCore>& core);
  std::size_t flush();  // the bytes that it copied
  void wait_writable();
  void on_drained();
  void linger();
  void drop_slow();
  void tick_answer(SteadyTime time);
  void tell_gone();
  void hang_up();

  // What is left to another process if this one dies.
  [[nodiscard]] ConnectionState state() const;
  [[nodiscard]] Stage stage() const;
  [[nodiscard]] bool journal_output(std::size_t bytes_max);
  void publish();

  // What another one has left.
  void resume();
  void resume_reading(const Resumption& left);
  void wait_for_request();
  void keep_deadline(const ConnectionState& left);
  void keep_write_deadline(const ConnectionState& left);
  void resume_request(Stage stage, std::string_view received);
  void resume_sending(std::string_view received);
  void refuse_read_otherwise();
  void fail_unread(std::string_view received);
  void fail_stream();

  void enter(Phase phase, Duration timeout);

  std::shared_ptr<ServerCore> core_;
  Tcp::socket socket_;
  RequestReader reader_;
  std::string in_;  // bytes behind the current request, at most the header limit and one read
  OutputQueue output_;
  Phase phase_ = Phase::kIdle;
  Answer answer_ = Answer::kNone;
  SteadyTime deadline_{};
  SteadyTime last_progress_{};  // of the socket taking bytes, or when it first took none; if
                                // waits_writable_
  SteadyTime last_write_{};     // of the handler, for comments
  std::uint64_t serial_ = 0;    // of the request in work
  ConnectionInfo info_;
  std::string request_id_;
  std::uint64_t drawn_id_ = 0;       // what it was made from; 0: the client gave it
  std::optional<Resumed> resumed_;   // of the request in work
  HandlerNotes notes_{};             // likewise
  bool continued_ = false;           // "100 Continue" has been written for it
  std::uint64_t request_begin_ = 0;  // in what is received: of the request in work
  std::uint64_t request_end_ = 0;    // likewise, once it is complete
  std::uint64_t journaled_ = 0;      // in what is sent: appended to the journal so far
  Headers access_fields_;            // of the answer
  std::function<void()> on_close_;
  MemoryBudget::Account memory_;
  std::size_t admitted_ = 0;    // booked for the body that comes; 0: it is not admitted
  std::size_t held_ = 0;        // by the handler's account, for the request in work
  bool resets_ = false;         // at its end: what the client has not taken is thrown away
  std::uint64_t received_ = 0;  // bytes of the socket, from its beginning
  std::uint64_t sent_ = 0;
  bool head_only_ = false;
  bool http_1_1_ = true;
  bool keep_alive_ = true;
  bool chunked_ = false;
  bool is_sse_ = false;
  bool reading_ = false;
  bool writing_ = false;         // flush() is to come
  bool blocked_ = false;         // the socket has taken no more
  bool is_fresh_ = false;        // all that waits was queued since nothing did, and not tried yet
  std::size_t burst_ = 0;        // unsent of that, where it is more than a slow client gets
  bool waits_writable_ = false;  // … or not all of it, since last_progress_: it may be full, too
  bool pumping_ = false;
};

}  // namespace phalanx::http
