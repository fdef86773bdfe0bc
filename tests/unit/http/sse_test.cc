// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/sse.h"

#include <gtest/gtest.h>

#include "phalanx/http/sse_parser.h"

namespace phalanx::http {
namespace {

std::vector<SseEvent> parse(std::string_view stream, std::size_t step) {
  std::vector<SseEvent> events;
  SseParser parser([&](SseEvent event) { events.push_back(std::move(event)); });
  while (!stream.empty()) {
    EXPECT_TRUE(parser.feed(stream.substr(0, step)));
    stream.remove_prefix(std::min(step, stream.size()));
  }
  EXPECT_FALSE(parser.inside_event());
  return events;
}

TEST(SseEvent, WritesOneDataFieldPerLine) {
  EXPECT_EQ(sse_event("{\"a\":1}"), "data: {\"a\":1}\n\n");
  EXPECT_EQ(sse_event("a\nb\r\nc\rd"), "data: a\ndata: b\ndata: c\ndata: d\n\n");
  EXPECT_EQ(sse_comment("ping"), ": ping\n\n");
}

// CR, LF and CRLF each end a line.
std::string lines_of(std::string_view data) {
  std::string event = "data: ";
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] == '\r' || data[i] == '\n') {
      event += "\ndata: ";
      i += data.substr(i, 2) == "\r\n" ? std::size_t{1} : 0;
    } else {
      event += data[i];
    }
  }
  return event + "\n\n";
}

TEST(SseEvent, EndsLinesWhereverTheirEndsAre) {
  std::vector<std::string> all = {""};
  for (std::size_t at = 0; at < all.size() && all[at].size() < 7; ++at) {
    for (const char c : {'a', '\r', '\n'}) {
      all.push_back(all[at] + c);
    }
  }
  for (const std::string& data : all) {
    ASSERT_EQ(sse_event(data), lines_of(data));
  }
}

TEST(SseParser, ReadsTheSameEventsHoweverTheStreamIsCut) {
  const std::string stream =
      "\xEF\xBB\xBF: hello\n\ndata: one\n\ndata:two\r\ndata:  three\r\n\r\nevent: kind\rid: "
      "7\rdata\r\r"
      "retry: 5\n\n: only a comment\n\ndata: [DONE]\n\n";
  const std::vector<SseEvent> expected = {
      {"", "one"}, {"", "two\n three"}, {"kind", ""}, {"", "[DONE]"}};
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    EXPECT_EQ(parse(stream, step), expected) << step;
  }
}

TEST(SseParser, ReadsWhatSseEventWrites) {
  const std::string stream = sse_event("a\nb") + sse_comment("ping") + sse_event("");
  EXPECT_EQ(parse(stream, 3), (std::vector<SseEvent>{{"", "a\nb"}, {"", ""}}));
}

TEST(SseParser, CountsComments) {
  SseParser parser([](const SseEvent&) {});
  ASSERT_TRUE(parser.feed(": ping\n\n:\n\ndata: x\n\n"));
  EXPECT_EQ(parser.comments(), 2U);
}

TEST(SseParser, KnowsThatItStandsInsideAnEvent) {
  const std::string event = "data: x\n\n";
  for (std::size_t length = 1; length < event.size(); ++length) {
    SseParser parser([](const SseEvent&) {});
    ASSERT_TRUE(parser.feed(event.substr(0, length)));
    EXPECT_TRUE(parser.inside_event()) << length;
  }
}

TEST(SseParser, RefusesAnEventBeyondItsLimit) {
  SseParser one_line([](const SseEvent&) {}, 100);
  EXPECT_FALSE(one_line.feed("data: " + std::string(200, 'a')));
  SseParser many_lines([](const SseEvent&) {}, 100);
  Status status = ok();
  for (int i = 0; i < 30 && status; ++i) {
    status = many_lines.feed("data: 12345\n");
  }
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kResourceExhausted);
  EXPECT_FALSE(many_lines.feed("\n\n")) << "what follows makes no sense";
}

}  // namespace
}  // namespace phalanx::http
