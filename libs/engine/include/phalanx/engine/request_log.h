// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "phalanx/base/clock.h"
#include "phalanx/base/error.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::engine {

// As lines of the log name it: REQUEST.CHOICE#ATTEMPT, by the number that the leader's lines of the
// request have.
[[nodiscard]] std::string text_of(const wire::SequenceKey& key);

// The lines of the log that say where the time of a sequence went: start, running, first token,
// end. Keeps the times of open sequences and nothing else; no decision depends on it.
//
// Threads: one.
class RequestLog {
 public:
  void began(const wire::Submit& submit, SteadyTime now);
  void admitted(const wire::SequenceKey& key, SteadyTime now);
  // With the first token of an attempt the update gets its times.
  void updated(wire::TokenUpdate* update, SteadyTime now);
  void refused(const wire::SequenceKey& key, const Error& error);

 private:
  struct Times {
    SteadyTime began;
    std::optional<SteadyTime> admitted;
    std::optional<SteadyTime> first_token;
    std::uint32_t tokens = 0;
  };
  std::map<wire::SequenceKey, Times> open_;
};

}  // namespace phalanx::engine
