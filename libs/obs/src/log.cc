// SPDX-License-Identifier: Apache-2.0
#include "phalanx/obs/log.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include "phalanx/base/printable.h"
#include "phalanx/base/utf8.h"
#include "phalanx/obs/flight_ring.h"

#include "line_writer.h"

namespace phalanx::obs {

namespace {

constexpr std::size_t kRecentLines = 64;
constexpr auto kRetry = std::chrono::milliseconds(5);
constexpr std::size_t kMaxLineBytes =
    4000;  // below PIPE_BUF with the fixed fields: lines of several processes stay whole
constexpr std::string_view kCut = "…";

constexpr std::array<std::pair<LogLevel, std::string_view>, 5> kLevelNames{{
    {LogLevel::kTrace, "trace"},
    {LogLevel::kDebug, "debug"},
    {LogLevel::kInfo, "info"},
    {LogLevel::kWarn, "warning"},
    {LogLevel::kError, "error"},
}};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// As syslog(3) has them.
int priority_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::err:
      return 3;
    case spdlog::level::warn:
      return 4;
    case spdlog::level::info:
      return 6;
    default:
      return 7;
  }
}

// Keeps the last lines for failure messages, here and in the page that the parent keeps.
class RecentSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void set_flight(std::span<std::byte> memory) {
    const std::lock_guard lock(mutex_);
    flight_ = FlightRing(memory);
  }

  [[nodiscard]] std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return {lines_.begin(), lines_.end()};
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t buffer;
    formatter_->format(message, buffer);
    std::string line(buffer.data(), buffer.size());
    while (!line.empty() && line.back() == '\n') {
      line.pop_back();
    }
    flight_.append(line);
    lines_.push_back(std::move(line));
    if (lines_.size() > kRecentLines) {
      lines_.pop_front();
    }
  }
  void flush_() override {}

 private:
  FlightRing flight_{std::span<std::byte>()};
  std::deque<std::string> lines_;
};

// Standard error, for which no thread waits longer than its patience.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // Tries again until `deadline`.
  void print(std::string_view line, LogLevel level, SteadyTime deadline) {
    const std::lock_guard lock(mutex_);
    const int priority = priority_of(spdlog_level(level));
    while (!tell_of_dropped() || !writer_.write(line, priority)) {
      if (steady_clock().now() >= deadline) {
        ++untold_;
        dropped_.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      std::this_thread::sleep_for(kRetry);
    }
  }

  [[nodiscard]] std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!tell_of_dropped() || !write(message)) {
      ++untold_;
      dropped_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void flush_() override {}

 private:
  bool write(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t buffer;
    formatter_->format(message, buffer);
    return writer_.write({buffer.data(), buffer.size()}, priority_of(message.level));
  }

  bool tell_of_dropped() {
    if (untold_ == 0) {
      return true;
    }
    const std::string text = "log_lines_dropped lines=" + std::to_string(untold_);
    if (!write({"", spdlog::level::warn, spdlog::string_view_t(text.data(), text.size())})) {
      return false;
    }
    untold_ = 0;
    return true;
  }

  LineWriter writer_{STDERR_FILENO};
  std::uint64_t untold_ = 0;
  std::atomic<std::uint64_t> dropped_{0};
};

// The log of a process that was not set up yet: warnings and errors, without fixed fields.
struct Log {
  Log()
      : recent(std::make_shared<RecentSink>()),
        output(std::make_shared<StderrSink>()),
        logger("phalanx", {output, recent}) {
    logger.set_level(spdlog::level::trace);  // the level is asked for before a message is built
    set_prefix("");
  }

  void set_prefix(const std::string& prefix) {
    std::string escaped;
    for (const char letter : prefix) {
      escaped += letter == '%' ? std::string("%%") : std::string(1, letter);
    }
    logger.set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "%Y-%m-%dT%H:%M:%S.%eZ %l " + escaped + "%v", spdlog::pattern_time_type::utc));
  }

  std::shared_ptr<RecentSink> recent;
  std::shared_ptr<StderrSink> output;
  spdlog::logger logger;
};

Log& the_log() {
  // Never destroyed: threads may log while the process ends.
  static Log& log = *new Log;
  return log;
}

std::atomic<int>& level_word() {
  static std::atomic<int> level{static_cast<int>(LogLevel::kWarn)};
  return level;
}

// As it stands between quotes, where a backslash begins an escape.
std::string escaped(std::string_view value) {
  std::string result;
  for (const char letter : value) {
    if (letter == '"' || letter == '\\') {
      result += '\\';
    }
    if (letter == '\n') {
      result += "\\n";
    } else {
      result += letter;
    }
  }
  return printable(result);
}

void append_value(std::string& line, std::string_view value) {
  const auto is_simple = [](char byte) {
    return byte > 0x20 && byte < 0x7F && byte != '"' && byte != '\\' && byte != '=';
  };
  if (!value.empty() && std::all_of(value.begin(), value.end(), is_simple)) {
    line += value;
    return;
  }
  const std::string text = escaped(value);
  const bool is_plain =
      text == value && !value.empty() && value.find_first_of(" =") == std::string_view::npos;
  line += is_plain ? text : '"' + text + '"';
}

}  // namespace

LogField::LogField(std::string_view k, double v) : key(k) {
  std::array<char, 48> text{};
  if (std::isfinite(v) && std::fabs(v) < 1e15) {
    std::snprintf(text.data(), text.size(), "%.3f", v);
    value = text.data();
    value.erase(value.find_last_not_of('0') + 1);
    if (value.back() == '.') {
      value.pop_back();
    }
  } else {
    std::snprintf(text.data(), text.size(), "%g", v);
    value = text.data();
  }
}

Result<LogLevel> parse_log_level(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  for (const auto& [level, name] : kLevelNames) {
    if (name == lower || (level == LogLevel::kWarn && lower == "warn")) {
      return level;
    }
  }
  return invalid_argument("expected one of trace, debug, info, warning, error, found \"" +
                          std::string(text) + "\"");
}

std::string_view to_string(LogLevel level) {
  return kLevelNames.at(static_cast<std::size_t>(level)).second;
}

void start_log(const LogOptions& options) {
  std::string prefix = "role=" + options.role + " ";
  if (options.dp) {
    prefix += "dp=" + std::to_string(*options.dp) + " ";
  }
  if (options.tp) {
    prefix += "tp=" + std::to_string(*options.tp) + " ";
  }
  prefix += "pid=" + std::to_string(::getpid()) + " ";
  the_log().set_prefix(prefix);
  the_log().recent->set_flight(options.flight);
  set_log_level(options.level);
}

void print_lines(std::string_view text, LogLevel level, Duration patience) {
  const SteadyTime deadline = steady_clock().now() + patience;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    the_log().output->print(std::string(utf8_prefix(line, kMaxLineBytes)) + "\n", level, deadline);
  }
}

void detach_flight() {
  the_log().recent->set_flight({});
}

void set_log_level(LogLevel level) {
  level_word().store(static_cast<int>(level), std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
  return static_cast<int>(level) >= level_word().load(std::memory_order_relaxed);
}

std::uint64_t log_lines_dropped() {
  return the_log().output->dropped();
}

std::string format_event(std::string_view event, std::span<const LogField> fields) {
  std::string line(event);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    append_value(line, field.value);
  }
  if (line.size() > kMaxLineBytes) {
    line.resize(utf8_prefix(line, kMaxLineBytes - kCut.size()).size());
    line += kCut;
  }
  return line;
}

void log_event(LogLevel level, std::string_view event, std::span<const LogField> fields) {
  const std::string line = format_event(event, fields);
  the_log().logger.log(spdlog_level(level), spdlog::string_view_t(line.data(), line.size()));
}

std::vector<std::string> recent_log_lines() {
  return the_log().recent->lines();
}

}  // namespace phalanx::obs
