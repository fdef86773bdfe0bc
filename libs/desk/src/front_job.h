// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/ids.h"
#include "phalanx/desk/event_log.h"
#include "phalanx/desk/front_desk.h"
#include "phalanx/desk/request_metrics.h"
#include "phalanx/dispatch/admission.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::desk {

// As errors name it.
[[nodiscard]] inline std::string text_of(const wire::RequestKey& key) {
  return "request " + std::to_string(key.connection) + "." + std::to_string(key.ordinal);
}

// What a front is told of a request when something happens.
enum class Telling {
  kLive,   // all that was told before has been told to this front
  kHeld,   // nothing: no front has it, or the one that has it has not said yet what it is
  kAgain,  // what was told before; what happens meanwhile comes behind it
};

// What its front has said of a request.
enum class Stage {
  kPlaced,       // only that it comes
  kBegun,        // its Begin: prompts follow
  kBeginsAgain,  // nothing, being another front than the one that said its Begin
};

// One request that has a place, or had one and could have to be told again. What every token is
// looked up in comes first: it is in no cache any more when the next one comes.
struct FrontDesk::Job {
  struct Choice {
    std::uint32_t tokens = 0;  // told, those beyond a stop left out
    SteadyTime last_token{};
    bool stopped = false;   // by its front
    bool finished = false;  // its last token has been told, or it is stopped
  };
  struct Prompt {
    RequestId request;
    std::vector<Choice> choices;
  };

  std::optional<std::size_t> front;  // none: its front has died
  wire::RequestKey key;
  bool generates = true;
  Stage stage = Stage::kPlaced;
  bool start_logged = false;
  bool failed = false;     // that has been told; nothing more is told
  bool ended = false;      // its place is given back; only its log is left
  bool over = false;       // its front has said its End
  bool forgotten = false;  // its connection has ended or rests: nobody takes it over
  Telling telling = Telling::kLive;
  std::vector<Prompt> dispatched;
  SteadyTime arrived;
  EventLog log;
  std::size_t told_again = 0;  // events of the log, with kAgain …
  std::size_t written = 0;     // … of which so many have been written, by a front before

  // Of one that was taken over after it had begun.
  std::uint32_t prompts_again = 0;  // so many of its first prompts are to come again
  bool differs = false;             // it has been told to fail, and its prompts are not looked at

  dispatch::Admission::Ticket ticket;
  std::uint32_t prompts = 0;          // to come in all
  std::uint64_t booked_tokens = 0;    // of all prompts and choices
  std::uint64_t tokens_left = 0;      // of booked ones, for prompts that are still to come
  std::vector<TokenId> ids;           // of the prompt that is coming
  std::optional<std::uint64_t> seed;  // of all prompts so far, if they have the same
  RequestRecord record;

  // What comes of its prompts now has come before.
  [[nodiscard]] bool comes_again() const {
    return stage == Stage::kBegun && (differs || prompts_again > 0);
  }
};

}  // namespace phalanx::desk
