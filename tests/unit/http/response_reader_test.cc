// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/response_reader.h"

#include <gtest/gtest.h>

namespace phalanx::http {
namespace {

// Feeds `bytes` in pieces of `step`; the body's pieces are joined.
Status feed_in_steps(ResponseReader& reader,
                     std::string_view bytes,
                     std::size_t step,
                     std::string* body) {
  std::string pending;
  while (!bytes.empty()) {
    pending.append(bytes.substr(0, step));
    bytes.remove_prefix(std::min(step, bytes.size()));
    PHALANX_TRY(const std::size_t used, reader.feed(pending));
    pending.erase(0, used);
    if (reader.has_head()) {
      *body += reader.take_body();
    }
  }
  return ok();
}

TEST(ResponseReader, ReadsEveryFramingHoweverItIsCut) {
  const std::vector<std::string> responses = {
      "HTTP/1.1 201 Made\r\nA: b\r\nContent-Length: 11\r\n\r\nhello world",
      "HTTP/1.1 201 Made\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n"
      "0\r\n\r\n",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Made\r\nA: b\r\nContent-Length: 11\r\n\r\nhello "
      "world"};
  for (const std::string& response : responses) {
    for (std::size_t step = 1; step <= response.size(); ++step) {
      ResponseReader reader;
      std::string body;
      const Status status = feed_in_steps(reader, response, step, &body);
      ASSERT_TRUE(status) << step << " " << status.error().to_string() << response;
      ASSERT_TRUE(reader.complete()) << step << response;
      EXPECT_EQ(reader.status(), 201);
      EXPECT_EQ(*reader.headers().find("a"), "b");
      EXPECT_TRUE(reader.keep_alive());
      EXPECT_EQ(body, "hello world");
    }
  }
}

TEST(ResponseReader, ReadsChunksOfNothingHoweverTheyAreCut) {
  const std::string response =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n";
  for (std::size_t step = 1; step <= response.size(); ++step) {
    ResponseReader reader;
    std::string body;
    const Status status = feed_in_steps(reader, response, step, &body);
    ASSERT_TRUE(status) << step << " " << status.error().to_string();
    EXPECT_TRUE(reader.complete()) << step;
    EXPECT_EQ(body, "");
  }
}

TEST(ResponseReader, RefusesWhatIsNoChunk) {
  for (const char* chunks : {"x\r\n", "5\nhello", "5\r\nhello!", "0\r\nA: b\n\n\r\n1\r\v\r\n"}) {
    ResponseReader reader;
    std::string body;
    const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const Status status = feed_in_steps(reader, head + chunks, 1, &body);
    ASSERT_FALSE(status) << chunks;
    EXPECT_EQ(status.error().code(), Code::kDataLoss);
  }
}

TEST(ResponseReader, TellsACutAtEveryByte) {
  const std::string response =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
  for (std::size_t length = 1; length < response.size(); ++length) {
    ResponseReader reader;
    std::string body;
    ASSERT_TRUE(feed_in_steps(reader, response.substr(0, length), length, &body));
    EXPECT_FALSE(reader.complete()) << length;
    const Status status = reader.feed_end();
    ASSERT_FALSE(status) << length;
    EXPECT_EQ(status.error().code(), Code::kDataLoss);
  }
}

TEST(ResponseReader, TheEndOfTheConnectionEndsABodyWithoutLength) {
  ResponseReader reader;
  std::string body;
  ASSERT_TRUE(feed_in_steps(reader, "HTTP/1.0 200 OK\r\n\r\nsome", 4, &body));
  EXPECT_FALSE(reader.complete());
  EXPECT_TRUE(reader.feed_end());
  EXPECT_FALSE(reader.keep_alive());
  EXPECT_EQ(body, "some");
}

TEST(ResponseReader, OneOfSeveralConnectionFieldsMayCloseIt) {
  for (const std::string fields : {"Connection: close", "Connection: te\r\nConnection: close"}) {
    ResponseReader reader;
    std::string body;
    const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + fields;
    ASSERT_TRUE(feed_in_steps(reader, head + "\r\n\r\nok", 99, &body));
    ASSERT_TRUE(reader.complete());
    EXPECT_FALSE(reader.keep_alive()) << fields;
  }
}

TEST(ResponseReader, AnAnswerToHeadHasNoBody) {
  ResponseReader reader(true);
  std::string body;
  ASSERT_TRUE(feed_in_steps(reader, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 9, &body));
  EXPECT_TRUE(reader.complete());
}

TEST(ResponseReader, NoMemoryIsTakenForBytesThatHaveNotCome) {
  for (const char* length : {"270000000000", "18446744073709551615"}) {
    ResponseReader reader;
    std::string body;
    const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: ";
    ASSERT_TRUE(feed_in_steps(reader, head + length + "\r\n\r\nsome", 99, &body)) << length;
    EXPECT_EQ(body, "some");
    EXPECT_FALSE(reader.complete());
  }
}

TEST(ResponseReader, AnAnswerEndsWithItsLength) {
  ResponseReader reader;
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsome";
  const auto used = reader.feed(answer + "HTTP/1.1 404 Another\r\n");
  ASSERT_TRUE(used);
  EXPECT_EQ(*used, answer.size());
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.take_body(), "some");
}

TEST(ResponseReader, AnswersWithoutBodyEndWithTheirHead) {
  for (const char* status : {"204 No Content", "304 Not Modified"}) {
    ResponseReader reader;
    std::string body;
    const std::string line = std::string("HTTP/1.1 ") + status + "\r\n";
    ASSERT_TRUE(feed_in_steps(reader, line + "Content-Length: 9\r\n\r\n", 99, &body)) << status;
    EXPECT_TRUE(reader.complete()) << status;
  }
}

TEST(ResponseReader, TheLimitOfTheHeaderIsOfAllOfIt) {
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{90}}) {
    ResponseReader reader(false, 1000);
    std::string body;
    std::string bytes = "HTTP/1.1 200 OK\r\n";
    for (int i = 0; i < 250; ++i) {
      bytes += "A: b\r\n";
    }
    const Status status = feed_in_steps(reader, bytes, step, &body);
    ASSERT_FALSE(status) << step;
    EXPECT_NE(status.error().message().find("1000 bytes"), std::string::npos) << step;
  }
}

TEST(ResponseReader, ALengthMayBeAnyNumber) {
  ResponseReader reader;
  ASSERT_TRUE(reader.feed("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\nsome"));
  EXPECT_FALSE(reader.feed_end());
}

TEST(ResponseReader, RefusesCodingsThatItDoesNotKnow) {
  for (const std::string coding : {"gzip",
                                   "chunked gzip",
                                   "gzip, chunked",
                                   "chunked\r\n"
                                   "Transfer-Encoding: chunked"}) {
    ResponseReader reader;
    const auto used =
        reader.feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + coding + "\r\n\r\n0\r\n\r\n");
    ASSERT_FALSE(used) << coding;
    EXPECT_EQ(used.error().code(), Code::kDataLoss);
  }
}

TEST(ResponseReader, RefusesAProtocolThatNobodyAskedFor) {
  ResponseReader reader;
  const auto used = reader.feed("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n");
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code(), Code::kDataLoss);
}

TEST(ResponseReader, RefusesWhatIsNotHttp) {
  ResponseReader reader;
  const auto used = reader.feed("SSH-2.0-OpenSSH_9.2\r\n");
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace phalanx::http
