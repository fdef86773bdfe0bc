// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/http/client.h"
#include "phalanx/loadgen/report.h"
#include "phalanx/loadgen/stream_audit.h"
#include "phalanx/loadgen/workload.h"
#include "phalanx/os/event_loop.h"

namespace phalanx::loadgen {

struct DriverOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::string target = "/v1/completions";
  http::Headers headers;
  Duration request_timeout = std::chrono::seconds(600);
  std::optional<std::size_t> max_concurrency;  // requests under way at a time
  // All arrive at once: with a limit each is meant to be sent when there is room for it.
  bool closed_loop = false;
  StreamAudit::Rules rules;
};

// One request with its body made.
struct PreparedRequest {
  std::string body;
  std::optional<std::string> expected_text;
  std::uint32_t max_tokens = 0;  // an answer of far more is not read to its end
};

// Sends the requests of one run and records what comes back.
//
// Open loop: requests are meant for their arrival times whatever the server does; one that has to
// wait for max_concurrency has its waiting counted. Closed loop (all arrival times zero): a request
// is meant for the moment a place is free.
//
// Ownership: borrows loop, client and clock.
// Threads: the loop thread.
class Driver {
 public:
  using Done = std::function<void(std::vector<RequestRecord>, Duration duration)>;

  Driver(os::EventLoop& loop, http::Client& client, const Clock& clock, DriverOptions options);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver();

  // Requires: as many arrival times as requests, ascending; at least one; no run under way. `done`
  // is called once, from the loop.
  void run(std::vector<PreparedRequest> requests, std::vector<Duration> arrivals, Done done);

  // Ends the run under way now: `done` gets the records of the requests that have ended. Those under
  // way are dropped, the others not sent. Not from inside a callback of this class.
  void give_up();

  [[nodiscard]] std::size_t finished() const { return finished_; }
  [[nodiscard]] std::size_t failed() const { return failed_; }
  [[nodiscard]] std::size_t under_way() const { return under_way_; }
  [[nodiscard]] std::size_t unsent() const { return requests_.size() - next_; }

 private:
  struct Flight;

  [[nodiscard]] Duration elapsed() const { return clock_.now() - started_; }
  void send_due();
  void send(std::size_t index);
  void on_end(std::size_t index, const Status& status);

  os::EventLoop& loop_;
  http::Client& client_;
  const Clock& clock_;
  DriverOptions options_;
  std::vector<PreparedRequest> requests_;
  std::vector<Duration> arrivals_;
  std::vector<RequestRecord> records_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::unique_ptr<os::EventLoop::Handle> timer_;
  Done done_;
  SteadyTime started_{};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for what is posted
  std::size_t next_ = 0;
  std::size_t under_way_ = 0;
  std::size_t finished_ = 0;
  std::size_t failed_ = 0;
};

}  // namespace phalanx::loadgen
