// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/openai/responses.h"

namespace phalanx::loadgen {

// Holds one streamed answer to what a server promises: exactly one terminal event (a finish reason
// or an error), usage equal to the tokens that were counted, [DONE] at the end and nothing behind
// it. Whatever ends early was cut, and is a failure however good it looked so far.
//
// Threads: one at a time.
class StreamAudit {
 public:
  struct Rules {
    // Each event carries one token, so that usage must equal the number of events. False for
    // servers that join tokens.
    bool usage_counts_events = true;
  };
  StreamAudit() = default;
  explicit StreamAudit(Rules rules) : rules_(rules) {}

  enum class Seen { kToken, kOther };

  // The data of the next event. Tells whether it carried a token.
  Seen on_event(std::string_view data);

  // The transport has ended; `transport` says whether as the framing promised. `inside_event`: the
  // stream stands inside an event.
  void on_end(const Status& transport, bool inside_event);

  // The first thing that was wrong. Complete after on_end().
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }

  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::string& finish_reason() const { return finish_reason_; }
  [[nodiscard]] const std::optional<openai::Usage>& usage() const { return usage_; }

 private:
  void fail(std::string what);
  void check_usage();

  Rules rules_;
  std::string text_;
  std::string finish_reason_;
  std::optional<openai::Usage> usage_;
  std::optional<std::string> failure_;
  std::uint64_t tokens_ = 0;
  int terminal_events_ = 0;
  bool done_ = false;
  bool has_events_ = false;
};

}  // namespace phalanx::loadgen
