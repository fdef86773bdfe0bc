// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "phalanx/http/request_reader.h"

namespace phalanx::http {
namespace {

using State = RequestReader::State;

constexpr std::string_view kHead =
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
constexpr RequestLimits kLimits{.header_bytes_max = 1000, .body_bytes_max = 100};

// What a reader says to a chunked body, and how many bytes of it wait outside the reader.
struct Outcome {
  State state;
  RequestReader::Refusal refusal;
  std::size_t unused;
};

Outcome outcome_of(std::string_view body) {
  RequestReader reader(kLimits);
  EXPECT_EQ(reader.feed(kHead), kHead.size());
  const std::size_t used = reader.feed(body);
  return {reader.state(),
          reader.state() == State::kRefused ? reader.refusal() : RequestReader::Refusal{0, ""},
          body.size() - used};
}

TEST(ChunkedBody, AnEndlessExtensionIsRefused) {
  const Outcome outcome = outcome_of("5;" + std::string(2000, 'x'));
  EXPECT_EQ(outcome.state, State::kRefused);
  EXPECT_EQ(outcome.refusal.status, 400);
  EXPECT_NE(outcome.refusal.message.find("1000 bytes"), std::string::npos);
}

TEST(ChunkedBody, ExtensionsOfAllChunksAreBoundedTogether) {
  std::string body;
  for (int i = 0; i < 30; ++i) {
    body += "1;" + std::string(50, 'x') + "\r\na\r\n";
  }
  EXPECT_EQ(outcome_of(body).refusal.status, 400);
}

TEST(ChunkedBody, EndlessTrailersAreRefused) {
  EXPECT_EQ(outcome_of("0\r\nX: " + std::string(2000, 'x')).refusal.status, 431);
  std::string many = "0\r\n";
  for (int i = 0; i < 400; ++i) {
    many += "a: b\r\n";
  }
  EXPECT_EQ(outcome_of(many).refusal.status, 431);
}

TEST(ChunkedBody, NothingWaitsOutsideTheReader) {
  EXPECT_EQ(outcome_of("5;" + std::string(900, 'x')).unused, 0U);
  EXPECT_EQ(outcome_of("0\r\nX: " + std::string(900, 'x')).unused, 0U);
}

TEST(ChunkedBody, TrailersNeverBecomeHeaders) {
  RequestReader reader(kLimits);
  const std::string request =
      std::string(kHead) + "1\r\na\r\n0\r\nX-Trailer: t\r\nHost: evil\r\nOrigin: o\r\n\r\n";
  EXPECT_EQ(reader.feed(request), request.size());
  ASSERT_EQ(reader.state(), State::kComplete);
  const Request taken = reader.take();
  EXPECT_EQ(taken.body, "a");
  EXPECT_EQ(taken.headers.find("x-trailer"), nullptr);
  EXPECT_EQ(taken.headers.find("origin"), nullptr);
  EXPECT_EQ(*taken.headers.find("host"), "h");
}

TEST(ChunkedBody, RefusesWhatIsNoChunk) {
  for (const std::string body : {"\r\n",
                                 " 1\r\na\r\n",
                                 "1 \r\na\r\n",
                                 "1\na\n",
                                 "0x1\r\na\r\n",
                                 "-1\r\n",
                                 "+1\r\na\r\n",
                                 "1\r\nab\r\n",
                                 "1\r\na\n0\r\n\r\n",
                                 "1;\n\r\na\r\n",
                                 "1 x\r\na\r\n",
                                 "1 2;x\r\na\r\n",
                                 "1\t\r\na\r\n",
                                 "1 \n;x\r\na\r\n",
                                 " ;x\r\n",
                                 "0\r\nX: a\nb\r\n\r\n",
                                 "00000000000000001\r\na\r\n"}) {
    EXPECT_EQ(outcome_of(body).refusal.status, 400) << testing::PrintToString(body);
  }
}

TEST(ChunkedBody, BlanksMayStandAroundExtensions) {
  for (const std::string size : {"1 ;a", "1\t ;a=b", "1; a", "1 ; a = \"b\" ; c", "1;a ;b"}) {
    const Outcome outcome = outcome_of(size + "\r\na\r\n0 ;x\r\n\r\n");
    EXPECT_EQ(outcome.state, State::kComplete) << size;
    EXPECT_EQ(outcome.unused, 0U) << size;
  }
  EXPECT_EQ(outcome_of("1" + std::string(2000, ' ')).refusal.status, 400);
}

// What no header line may be is none of a trailer either: it could be a request for the next
// reader.
TEST(ChunkedBody, TrailerLinesMustBeFields) {
  for (const std::string line : {"GET /admin HTTP/1.1",
                                 " x: y",
                                 "\tx: y",
                                 "x : y",
                                 "x\t: y",
                                 ": y",
                                 ":",
                                 "x",
                                 "x y: z",
                                 "x\x80: y",
                                 "a: b\r\n c",
                                 "a: b\r\nx : y",
                                 "x: \x01",
                                 "x: y\n"}) {
    const auto refusal = outcome_of("0\r\n" + line + "\r\n\r\n").refusal;
    EXPECT_EQ(refusal.status, 400) << line;
    EXPECT_NE(refusal.message.find("a trailer line must"), std::string::npos) << refusal.message;
  }
  for (const std::string line : {"x:", "x: y", "x:y: z", "X-a_b: \t\x80"}) {
    EXPECT_EQ(outcome_of("0\r\n" + line + "\r\n\r\n").state, State::kComplete) << line;
  }
  EXPECT_EQ(outcome_of("0\r\n" + std::string(2000, 'x')).refusal.status, 431);
}

TEST(ChunkedBody, ASizeThatOverflowsIsTooLarge) {
  EXPECT_EQ(outcome_of("ffffffffffffffff\r\n").refusal.status, 413);
  EXPECT_EQ(outcome_of("2\r\nab\r\nffffffffffffffff\r\n").refusal.status, 413);
  EXPECT_EQ(outcome_of("64\r\n" + std::string(100, 'a') + "\r\n1\r\n").refusal.status, 413);
}

}  // namespace
}  // namespace phalanx::http
