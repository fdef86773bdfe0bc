// SPDX-License-Identifier: Apache-2.0
#include "phalanx/obs/log.h"

#include <unistd.h>

#include <array>
#include <limits>
#include <regex>

#include <gtest/gtest.h>

#include "phalanx/base/utf8.h"
#include "phalanx/obs/flight_ring.h"

namespace phalanx::obs {
namespace {

std::string format(std::string_view event, LogFields fields) {
  return format_event(event, {fields.begin(), fields.size()});
}

TEST(FormatEvent, WritesKeysAndValues) {
  EXPECT_EQ(format("step_done", {{"tokens", 17U}, {"ms", 2.5}, {"ok", true}, {"delta", -3}}),
            "step_done tokens=17 ms=2.5 ok=true delta=-3");
  EXPECT_EQ(format("bare", {}), "bare");
}

TEST(FormatEvent, QuotesWhatWouldNotReadBack) {
  EXPECT_EQ(format("e", {{"a", ""}, {"b", "x y"}, {"c", "q\"q"}, {"d", "k=v"}, {"f", "ü"}}),
            "e a=\"\" b=\"x y\" c=\"q\\\"q\" d=\"k=v\" f=ü");
}

TEST(FormatEvent, NeverWritesASecondLine) {
  EXPECT_EQ(format("e", {{"text", std::string("a\nb\r\x01", 5)}}), "e text=\"a\\nb\\u{d}\\u{1}\"");
}

TEST(FormatEvent, HoldsNothingThatATerminalObeys) {
  EXPECT_EQ(
      format(
          "e",
          {{"a", "\u009b2J"}, {"b", "\u202e"}, {"c", "\u2028x"}, {"d", "\xff"}, {"f", "\\u{9b}"}}),
      R"(e a="\u{9b}2J" b="\u{202e}" c="\u{2028}x" d="\xff" f="\\u{9b}")");
}

TEST(FormatEvent, BoundsTheLine) {
  EXPECT_EQ(format("e", {{"text", std::string(100000, 'x')}}).size(), 4000U);
}

TEST(FormatEvent, CutsBetweenCharacters) {
  for (std::size_t before = 0; before < 4; ++before) {
    std::string text(before, 'x');
    for (int i = 0; i < 3000; ++i) {
      text += "\U0001f600";
    }
    const std::string line = format("e", {{"text", text}});
    EXPECT_TRUE(is_valid_utf8(line)) << before;
    EXPECT_LE(line.size(), 4000U);
    EXPECT_GT(line.size(), 3990U);
    EXPECT_TRUE(line.ends_with("\U0001f600…"));
  }
}

TEST(LogField, WritesNumbersShortly) {
  EXPECT_EQ(LogField("k", 0.0).value, "0");
  EXPECT_EQ(LogField("k", 12.0).value, "12");
  EXPECT_EQ(LogField("k", 1.0 / 3.0).value, "0.333");
  EXPECT_EQ(LogField("k", 100.0).value, "100");
  EXPECT_EQ(LogField("k", std::numeric_limits<double>::infinity()).value, "inf");
}

TEST(LogLevel, IsReadByName) {
  for (const LogLevel level :
       {LogLevel::kTrace, LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError}) {
    EXPECT_EQ(*parse_log_level(to_string(level)), level);
  }
  EXPECT_EQ(*parse_log_level("warning"), LogLevel::kWarn);
  EXPECT_EQ(*parse_log_level("warn"), LogLevel::kWarn);
  EXPECT_EQ(*parse_log_level("WARNING"), LogLevel::kWarn);
  const auto unknown = parse_log_level("loud");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message().find("trace, debug, info, warning, error"),
            std::string::npos);
}

TEST(Log, WritesFixedFieldsAndKeepsTheLastLines) {
  struct alignas(8) Memory {
    std::array<std::byte, 4096> bytes{};
  };
  static Memory memory;
  LogOptions options;
  options.role = "rank";
  options.dp = 0;
  options.tp = 1;
  options.flight = memory.bytes;
  testing::internal::CaptureStderr();
  start_log(options);
  log_info("request_start", {{"prompt_tokens", 17}});
  log_debug("too_detailed");
  const std::string written = testing::internal::GetCapturedStderr();
  const std::string pid = std::to_string(::getpid());
  EXPECT_TRUE(std::regex_match(
      written,
      std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info role=rank dp=0 tp=1 pid=)" + pid +
                 " request_start prompt_tokens=17\n")))
      << written;
  EXPECT_EQ(recent_log_lines().back() + "\n", written);
  EXPECT_EQ(FlightRing(memory.bytes).lines(1).at(0) + "\n", written);

  detach_flight();
  testing::internal::CaptureStderr();
  log_info("after_the_page_is_gone");
  static_cast<void>(testing::internal::GetCapturedStderr());
  EXPECT_EQ(FlightRing(memory.bytes).lines(1).at(0) + "\n", written);
}

TEST(Log, WritesOnlyWhatItsLevelAllows) {
  set_log_level(LogLevel::kError);
  EXPECT_FALSE(log_enabled(LogLevel::kWarn));
  EXPECT_TRUE(log_enabled(LogLevel::kError));
  testing::internal::CaptureStderr();
  log_warn("unheard");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  set_log_level(LogLevel::kTrace);
  EXPECT_TRUE(log_enabled(LogLevel::kTrace));
  set_log_level(LogLevel::kInfo);
}

TEST(Log, TakesPercentSignsLiterally) {
  testing::internal::CaptureStderr();
  log_info("load", {{"text", "100%v {} %%"}});
  EXPECT_NE(testing::internal::GetCapturedStderr().find("load text=\"100%v {} %%\""),
            std::string::npos);
}

TEST(Log, KeepsABoundedNumberOfLines) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 200; ++i) {
    log_info("tick", {{"i", i}});
  }
  static_cast<void>(testing::internal::GetCapturedStderr());
  const auto lines = recent_log_lines();
  EXPECT_EQ(lines.size(), 64U);
  EXPECT_TRUE(lines.back().ends_with("tick i=199")) << lines.back();
}

}  // namespace
}  // namespace phalanx::obs
