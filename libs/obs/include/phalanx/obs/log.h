// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"

namespace phalanx::obs {

enum class LogLevel : int { kTrace, kDebug, kInfo, kWarn, kError };

// "trace", "debug", "info", "warning" (or "warn"), "error", in capitals as well. Errors:
// kInvalidArgument naming the known levels.
[[nodiscard]] Result<LogLevel> parse_log_level(std::string_view text);
// As lines of the log have it: "warning".
[[nodiscard]] std::string_view to_string(LogLevel level);

// One key=value pair of an event. The value is text by the time it gets here: build fields only
// when the level is on (log_debug and log_trace in hot places ask log_enabled() first).
struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, bool v) : key(k), value(v ? "true" : "false") {}
  LogField(std::string_view k, double v);  // at most three decimals
  template <std::integral T>
  LogField(std::string_view k, T v) : key(k), value(std::to_string(v)) {}

  std::string_view key;
  std::string value;
};
using LogFields = std::initializer_list<LogField>;

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  std::string role;             // "leader", "replica", "rank", "loader"
  std::optional<int> dp;        // replica index
  std::optional<int> tp;        // rank index
  std::span<std::byte> flight;  // where the last lines are left for the parent; may be empty
};

// Sets up the log of this process: one line per event to stderr,
//
//   2026-11-21T05:36:06.123Z info role=rank dp=0 tp=1 pid=123 request_start prompt_tokens=17
//
// Values with blanks, quotes, '=' or what printable() does not show are quoted and escaped, so that
// a terminal can show the log; an event with its values is at most 4,000 bytes, the rest is cut. In
// the journal of systemd it has its level, too ($JOURNAL_STREAM). Called once, before threads
// start; until then only warnings and errors are written, without fixed fields.
// Threads: logging is safe from any thread.
// Blocks: never for a pipe or terminal that nobody reads; lines that find no room are dropped and
// counted, and the next line that finds some follows one that says how many (event
// log_lines_dropped).
void start_log(const LogOptions& options);

// The flight memory is about to go: later lines are not left there any more.
void detach_flight();

void set_log_level(LogLevel level);

[[nodiscard]] bool log_enabled(LogLevel level);

// Lines of this process that found no room since it began.
[[nodiscard]] std::uint64_t log_lines_dropped();

// `event` names what happened: one word, snake_case.
void log_event(LogLevel level, std::string_view event, std::span<const LogField> fields);

inline void log_at(LogLevel level, std::string_view event, LogFields fields = {}) {
  if (log_enabled(level)) {
    log_event(level, event, {fields.begin(), fields.size()});
  }
}
inline void log_trace(std::string_view event, LogFields fields = {}) {
  log_at(LogLevel::kTrace, event, fields);
}
inline void log_debug(std::string_view event, LogFields fields = {}) {
  log_at(LogLevel::kDebug, event, fields);
}
inline void log_info(std::string_view event, LogFields fields = {}) {
  log_at(LogLevel::kInfo, event, fields);
}
inline void log_warn(std::string_view event, LogFields fields = {}) {
  log_at(LogLevel::kWarn, event, fields);
}
inline void log_error(std::string_view event, LogFields fields = {}) {
  log_at(LogLevel::kError, event, fields);
}

// Writes plain lines, as they are, to standard error, in order with those of the log and whatever
// its level; `level` is what they have in a journal. Lines for which nobody makes room within
// `patience`, all together, are dropped and counted as above.
void print_lines(std::string_view text,
                 LogLevel level = LogLevel::kInfo,
                 Duration patience = Duration{});

// "event key=value key=\"quoted value\"", as the line has it after the fixed fields.
[[nodiscard]] std::string format_event(std::string_view event, std::span<const LogField> fields);

// The last lines of this process, oldest first, for failure messages; at most 64.
[[nodiscard]] std::vector<std::string> recent_log_lines();

}  // namespace phalanx::obs
