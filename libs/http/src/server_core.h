// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "phalanx/http/access_policy.h"
#include "phalanx/http/memory_budget.h"
#include "phalanx/http/server.h"

namespace phalanx::http {

class Connection;

// What a server and its connections share. Outlives the server as long as a handler holds an
// exchange.
struct ServerCore : std::enable_shared_from_this<ServerCore> {
  ServerCore(os::EventLoop& event_loop, ServerOptions server_options, Handler request_handler)
      : loop(event_loop),
        options(std::move(server_options)),
        handler(std::move(request_handler)),
        memory(options.memory_bytes_max) {}

  [[nodiscard]] Response error_response(int status, const std::string& message) const {
    return options.format_error ? options.format_error(status, message)
                                : text_response(status, message + "\n");
  }

  os::EventLoop& loop;
  ServerOptions options;
  Handler handler;
  MemoryBudget memory;
  AccessPolicy access;
  ServerCounters counters;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::uint64_t next_request_id = 0;                 // starts at random
  bool draining = false;                             // every answer says "Connection: close"
  bool releasing = false;                            // connections at rest are let go of
  bool ending = false;                               // what is not answered is answered 503
  std::deque<std::shared_ptr<Connection>> to_flush;  // in one of the next turns
  bool destroyed = false;                            // no callback may run any more
  std::uint64_t marked = 0;                          // by the WorkMark that lives; 0: none
  // One for all: a connection's bytes are used up, or copied, before the next one reads.
  std::array<char, std::size_t{32} << 10> scratch{};
};

// While it lives the loop works for a connection, also where it may work on for it afterwards; for
// good, if what it does throws.
class WorkMark {
 public:
  WorkMark(ServerCore& core, std::uint64_t id)
      : core_(core), before_(std::exchange(core.marked, id)) {
    tell(id);
  }
  WorkMark(const WorkMark&) = delete;
  WorkMark& operator=(const WorkMark&) = delete;
  ~WorkMark() {
    if (std::uncaught_exceptions() == exceptions_) {
      core_.marked = before_;
      tell(before_);
    }
  }

 private:
  void tell(std::uint64_t id) const {
    if (core_.options.mark) {
      core_.options.mark(id);
    }
  }

  ServerCore& core_;
  std::uint64_t before_;
  int exceptions_ = std::uncaught_exceptions();
};

// Runs `callback` later, so that nobody is called from inside a call of its own, unless the server
// is destroyed by then.
inline void post_while_alive(const std::shared_ptr<ServerCore>& core,
                             std::function<void()> callback) {
  core->loop.post([core, callback = std::move(callback)] {
    if (!core->destroyed) {
      callback();
    }
  });
}

// Says that the descriptor of a connection is closed here.
inline void report_closed(const std::shared_ptr<ServerCore>& core, std::uint64_t id) {
  if (core->options.on_closed) {
    post_while_alive(core, [tell = &core->options.on_closed, id] { (*tell)(id); });
  }
}

}  // namespace phalanx::http
