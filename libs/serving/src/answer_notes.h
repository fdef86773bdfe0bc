// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/http/exchange.h"

namespace phalanx::serving {

// What an answer is made from besides its request and its tokens: kept with what was written, so
// that another process goes on with the same answer.
struct AnswerNotes {
  std::uint64_t salt = 0;     // of the answer's id
  std::uint64_t created = 0;  // seconds since 1970
  std::uint64_t seed = 0;     // used if the client gave none
  std::uint64_t told = 0;     // tokens and errors heard so far
};

inline http::HandlerNotes to_handler_notes(const AnswerNotes& notes) {
  return {notes.salt, notes.created, notes.seed, notes.told};
}

inline AnswerNotes to_answer_notes(const http::HandlerNotes& notes) {
  return {notes[0], notes[1], notes[2], notes[3]};
}

}  // namespace phalanx::serving
