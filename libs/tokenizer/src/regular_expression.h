// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/base/byte_ranges.h"
#include "phalanx/base/result.h"
#include "phalanx/base/thread_time.h"

// PCRE2's own types are macros over this one; naming it here keeps the header private.
struct pcre2_real_code_8;

namespace phalanx::tokenizer {

inline constexpr std::size_t kMaxPatternBytes = 16384;

// Rewrites a pattern of the tokenizers library (Oniguruma, Ruby syntax) into one that PCRE2 reads
// the same way. \s and \S differ (PCRE2 counts U+180E); constructs whose meaning differs in ways
// that cannot be written down, or that tokenizers do not use, are refused by name.
[[nodiscard]] Result<std::string> translate_pattern(std::string_view pattern);

// Bounds the CPU time that all matches on this thread take together while it lives: each has a
// limit of its own, but a text has many.
class MatchTime {
 public:
  explicit MatchTime(Duration limit);
  MatchTime(const MatchTime&) = delete;
  MatchTime& operator=(const MatchTime&) = delete;
  ~MatchTime();

  // Counts a match.
  // Errors: kResourceExhausted  the time is over
  [[nodiscard]] Status count();

 private:
  CpuTimeLimit time_;
  unsigned matches_ = 0;
  MatchTime* outer_;
};

// A compiled pattern over UTF-8. Compiled to machine code where the system allows it (a process
// that may not map executable memory falls back to PCRE2's interpreter: same matches, slower).
//
// Threads: find() may be called from any thread at the same time.
class Regex {
 public:
  enum class Engine { kFastest, kInterpreter };

  // Errors: kInvalidArgument, kUnimplemented with the pattern's fault.
  [[nodiscard]] static Result<Regex> compile(std::string_view pattern,
                                             Engine engine = Engine::kFastest);
  // Matches exactly `text`.
  [[nodiscard]] static Result<Regex> literal(std::string_view text);

  // The first match that begins at or after `start`; matches are never empty.
  //
  // Requires: subject is valid UTF-8 and start a character boundary.
  // Errors:   kResourceExhausted  the match limit was reached, or the time of a MatchTime
  [[nodiscard]] Result<std::optional<ByteRange>> find(std::string_view subject,
                                                      std::size_t start) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };

  [[nodiscard]] static Result<Regex> build(std::string_view pattern,
                                           unsigned options,
                                           Engine engine);

  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

}  // namespace phalanx::tokenizer
