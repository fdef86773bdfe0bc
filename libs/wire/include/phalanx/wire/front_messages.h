// SPDX-License-Identifier: Apache-2.0
// Records between the leader and a front, over the front's control socket. Contract with units,
// limits and who may send what in which state: proto/leader-front.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/front_events.h"
#include "phalanx/wire/prompt_messages.h"

namespace phalanx::wire {

// ---- leader → front

// A connection. Descriptor [0]: a duplicate of its socket; [1] if it resumes: the journal of the
// front that had it and died (front_journal.h).
struct Connect {
  std::uint64_t connection = 0;
  std::string peer{};                // "127.0.0.1:41000"
  std::string refusal{};             // not empty: it is answered 503 with this, and closed
  bool goes_on = false;              // it was served before, and is at rest between two requests
  std::uint32_t waited_ms = 0;       // for the request that is to come, unless it resumes
  std::uint32_t place = 0;           // of its record in this front's journal, or kNoJournalPlace
  std::uint64_t received_bytes = 0;  // by the kernel's account, from the connection's beginning
  std::uint64_t sent_bytes = 0;
  bool resumes = false;       // it was left in the middle of a request or of an answer
  std::uint32_t left_at = 0;  // … and that is its place in the journal of the dead front
  std::string failure{};      // not empty: what it was left in is not gone on with but fails so
  friend bool operator==(const Connect&, const Connect&) = default;
};

// The answer to an Admit.
struct Admitted {
  RequestKey key{};
  std::uint32_t code = 0;  // 0: there is a place, until End; else a phalanx::Code: why not
  std::string message{};
  friend bool operator==(const Admitted&, const Admitted&) = default;
};

// A part of the answer to a Query; the parts of one come in order and without others in between.
struct Report {
  std::uint64_t query = 0;
  std::uint32_t status = 200;  // of HTTP
  std::string text{};          // at most kMaxReportBytes
  bool last = true;
  friend bool operator==(const Report&, const Report&) = default;
};

// Connections that wait for a request are closed, the others after their answer. `answers_end`: the
// server's deadline has come; a request that has no answer yet is answered 503, and what its client
// has not taken a second later is cut.
struct Drain {
  bool answers_end = false;
  friend bool operator==(const Drain&, const Drain&) = default;
};

// The front is to be replaced: it lets go of each connection as soon as that is at rest, and says so.
struct Retire {
  friend bool operator==(const Retire&, const Retire&) = default;
};

using LeaderToFront = std::
    variant<Connect, Admitted, FrontEvents, Report, Drain, Retire, History, PromptText, RunPrompts>;

// ---- front → leader

// Asks for a place for a request of so many bytes, before it is parsed.
struct Admit {
  RequestKey key{};
  std::string route{};  // "/v1/chat/completions"
  std::uint64_t body_bytes = 0;
  bool generates = true;  // false: tokens of a text only, which is served in every phase
  friend bool operator==(const Admit&, const Admit&) = default;
};

// What an admitted request has turned out to be. Its prompts follow: PromptPart records and then
// one Generate for each.
struct Begin {
  RequestKey key{};
  std::string id{};                 // X-Request-Id
  std::uint64_t booked_tokens = 0;  // what admission counts from here on
  std::uint32_t prompts = 1;        // 1 … kMaxFrontPrompts
  bool stream = false;
  std::uint32_t tokenize_us = 0;
  std::uint64_t told = 0;  // events of it whose text has been written: by another front, before
  friend bool operator==(const Begin&, const Begin&) = default;
};

// The next ids of the next prompt.
struct PromptPart {
  RequestKey key{};
  std::vector<TokenId> ids{};  // 1 … kMaxPromptPart
  friend bool operator==(const PromptPart&, const PromptPart&) = default;
};

// The prompt is complete: it is generated for. Prompts are numbered from 0 in this order.
struct Generate {
  RequestKey key{};
  std::uint32_t choices = 1;  // n: 1 … kMaxFrontChoices, over all prompts too
  step::SamplingParams sampling{};
  step::StopParams stop{};
  std::string cache_salt{};
  friend bool operator==(const Generate&, const Generate&) = default;
};

// The text of a choice ends with its token at `position`; tokens beyond do not count.
struct StopChoice {
  RequestKey key{};
  std::uint32_t prompt = 0;
  std::uint32_t choice = 0;
  std::uint32_t position = 0;
  friend bool operator==(const StopChoice&, const StopChoice&) = default;
};

// How a request ended, as logs and metrics name it. A complete answer ends by its finish reason.
namespace outcome {
inline constexpr const char* kStop = "stop";
inline constexpr const char* kLength = "length";
inline constexpr const char* kError = "error";
inline constexpr const char* kClientGone = "client_gone";
inline constexpr const char* kRefused = "refused";      // before it ran
inline constexpr const char* kTokenized = "tokenized";  // nothing was to be generated
inline constexpr std::array<std::string_view, 6> kAll = {
    kStop, kLength, kError, kClientGone, kRefused, kTokenized};
}  // namespace outcome

// The request is over: its place is free, what still runs of it is cancelled. Without a Begin
// before, `status` is what it was refused with.
struct End {
  RequestKey key{};
  std::string outcome{};  // one of outcome::kAll
  std::string error{};
  std::uint32_t status = 200;  // of HTTP
  friend bool operator==(const End&, const End&) = default;
};

enum class QueryKind : std::uint8_t { kReady, kHealth, kMetrics };
struct Query {
  std::uint64_t query = 0;  // the front's number for it
  QueryKind kind = QueryKind::kReady;
  friend bool operator==(const Query&, const Query&) = default;
};

// The front has closed its duplicate.
struct Disconnected {
  std::uint64_t connection = 0;
  bool cut = false;  // what was left of it could not be gone on with
  friend bool operator==(const Disconnected&, const Disconnected&) = default;
};

// Of the front's loop and log, every second and before a query for metrics.
struct FrontTimes {
  std::uint64_t longest_callback_us = 0;  // of CPU time, since the server is ready
  std::uint64_t long_callbacks = 0;
  std::uint64_t longest_lag_us = 0;  // since the last record
  std::uint64_t log_lines_dropped = 0;
  friend bool operator==(const FrontTimes&, const FrontTimes&) = default;
};

// The connection waits for a request: every answer has been given to its socket, and of the next
// request nothing has been read. Counted from its beginning. Until more is read or written, another
// front may go on with it.
struct AtRest {
  std::uint64_t connection = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_bytes = 0;
  friend bool operator==(const AtRest&, const AtRest&) = default;
};

// As AtRest, and the front has let go of the connection: its duplicate is closed, and nothing else.
struct Released {
  std::uint64_t connection = 0, received_bytes = 0, sent_bytes = 0;
  friend bool operator==(const Released&, const Released&) = default;
};

using FrontToLeader = std::variant<Admit,
                                   Begin,
                                   PromptPart,
                                   Generate,
                                   StopChoice,
                                   End,
                                   Query,
                                   Disconnected,
                                   FrontTimes,
                                   AtRest,
                                   Released,
                                   PromptsOutput,
                                   PromptsEnd>;

}  // namespace phalanx::wire
