// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/request_reader.h"

#include <gtest/gtest.h>

namespace phalanx::http {
namespace {

using State = RequestReader::State;

constexpr std::string_view kPost =
    "POST /v1/a%20b?x=%31 HTTP/1.1\r\nHost: h\r\nX-Thing: yes\r\nContent-Length: 5\r\n\r\nhello";

constexpr std::string_view kChunkedHead =
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";

// Feeds `bytes` in pieces of `step`, offering again what was not used, as a connection does. The
// bytes that were not used at the end are returned.
std::string feed_in_steps(RequestReader& reader, std::string_view bytes, std::size_t step) {
  std::string pending;
  while (!bytes.empty()) {
    pending.append(bytes.substr(0, step));
    bytes.remove_prefix(std::min(step, bytes.size()));
    pending.erase(0, reader.feed(pending));
  }
  return pending;
}

State state_after(std::string_view bytes, RequestLimits limits = {}) {
  RequestReader reader(limits);
  feed_in_steps(reader, bytes, bytes.size());
  return reader.state();
}

RequestReader::Refusal refusal_of(std::string_view bytes, RequestLimits limits = {}) {
  RequestReader reader(limits);
  feed_in_steps(reader, bytes, bytes.size());
  EXPECT_EQ(reader.state(), State::kRefused) << bytes;
  return reader.state() == State::kRefused ? reader.refusal() : RequestReader::Refusal{0, ""};
}

TEST(RequestReader, ReadsTheSameRequestHoweverItIsCut) {
  for (std::size_t step = 1; step <= kPost.size(); ++step) {
    RequestReader reader({});
    EXPECT_EQ(feed_in_steps(reader, kPost, step), "") << step;
    ASSERT_EQ(reader.state(), State::kComplete) << step;
    EXPECT_TRUE(reader.keep_alive());
    const Request request = reader.take();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, "/v1/a%20b?x=%31");
    EXPECT_EQ(request.path, "/v1/a b");
    EXPECT_EQ(request.query, "x=%31");
    EXPECT_EQ(request.body, "hello");
    ASSERT_NE(request.headers.find("x-thing"), nullptr);
    EXPECT_EQ(*request.headers.find("x-thing"), "yes");
  }
}

TEST(RequestReader, ReadsChunkedBodiesHoweverTheyAreCut) {
  const std::string kChunked =
      std::string(kChunkedHead) + "5;ext=1\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: t\r\n\r\n";
  for (std::size_t step = 1; step <= kChunked.size(); ++step) {
    RequestReader reader({});
    EXPECT_EQ(feed_in_steps(reader, kChunked, step), "") << step;
    ASSERT_EQ(reader.state(), State::kComplete) << step;
    EXPECT_EQ(reader.take().body, "hello world");
  }
}

TEST(RequestReader, LeavesThePipelinedRequestForTheNextRound) {
  RequestReader reader({});
  const std::string two = std::string(kPost) + "\r\nGET /next HTTP/1.1\r\nHost: h\r\n\r\n";
  std::string rest = feed_in_steps(reader, two, two.size());
  ASSERT_EQ(reader.state(), State::kComplete);
  EXPECT_EQ(reader.take().path, "/v1/a b");
  EXPECT_FALSE(reader.started());
  rest.erase(0, reader.feed(rest));
  ASSERT_EQ(reader.state(), State::kComplete);
  EXPECT_EQ(reader.take().path, "/next");
  EXPECT_EQ(rest, "");
}

TEST(RequestReader, TellsOnceThatTheClientWaitsForContinue) {
  RequestReader reader({});
  feed_in_steps(
      reader, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n", 7);
  ASSERT_EQ(reader.state(), State::kBody);
  EXPECT_TRUE(reader.take_expects_continue());
  EXPECT_FALSE(reader.take_expects_continue());
}

TEST(RequestReader, KnowsWhoKeepsTheConnection) {
  RequestReader old_client({});
  feed_in_steps(old_client, "GET / HTTP/1.0\r\n\r\n", 100);
  ASSERT_EQ(old_client.state(), State::kComplete);
  EXPECT_FALSE(old_client.keep_alive());
  EXPECT_FALSE(old_client.is_http_1_1());
  for (const std::string fields : {"Connection: close",
                                   "Connection: te, Close",
                                   "Connection: keep-alive\r\nConnection: close",
                                   "Connection: te\r\nTE: trailers\r\nConnection: close"}) {
    RequestReader closing({});
    feed_in_steps(closing, "GET / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n\r\n", 100);
    ASSERT_EQ(closing.state(), State::kComplete) << fields;
    EXPECT_FALSE(closing.keep_alive()) << fields;
  }
  RequestReader keeping({});
  feed_in_steps(keeping, "GET / HTTP/1.0\r\nConnection: te\r\nConnection: keep-alive\r\n\r\n", 99);
  EXPECT_TRUE(keeping.keep_alive());
  for (const std::string fields :
       {"Connection: keep-alive, close", "Connection: Close\r\nConnection: keep-alive"}) {
    RequestReader closing({});
    feed_in_steps(closing, "GET / HTTP/1.0\r\n" + fields + "\r\n\r\n", 99);
    ASSERT_EQ(closing.state(), State::kComplete) << fields;
    EXPECT_FALSE(closing.keep_alive()) << fields;
  }
}

TEST(RequestReader, RefusesALargeHeaderBeforeItIsComplete) {
  const RequestLimits limits{.header_bytes_max = 1000, .body_bytes_max = 10};
  const std::string endless = "GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(2000, 'a');
  const auto refusal = refusal_of(endless, limits);
  EXPECT_EQ(refusal.status, 431);
  EXPECT_NE(refusal.message.find("1000 bytes"), std::string::npos);
  const std::string many = "GET / HTTP/1.1\r\nHost: h\r\n" + [] {
    std::string fields;
    for (int i = 0; i < 400; ++i) {
      fields += "a: b\r\n";
    }
    return fields;
  }();
  EXPECT_EQ(refusal_of(many, limits).status, 431);
  EXPECT_EQ(refusal_of("GET /" + std::string(3000, 'a'), limits).status, 431);
}

TEST(RequestReader, RefusesALargeBodyByItsClaimAndByItsChunks) {
  const RequestLimits limits{.header_bytes_max = 1000, .body_bytes_max = 10};
  const auto claimed =
      refusal_of("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n", limits);
  EXPECT_EQ(claimed.status, 413);
  EXPECT_NE(claimed.message.find("10 bytes"), std::string::npos);
  EXPECT_EQ(refusal_of("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "8\r\n12345678\r\n8\r\n12345678\r\n",
                       limits)
                .status,
            413);
  EXPECT_EQ(
      state_after("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123456789", limits),
      State::kComplete);
}

TEST(RequestReader, RefusesWhatIsNotHttp) {
  EXPECT_EQ(refusal_of("\x16\x03\x01\x02 tls hello\r\n\r\n").status, 400);
  EXPECT_EQ(refusal_of("GET / HTTP/2.0\r\nHost: h\r\n\r\n").status, 505);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost h\r\n\r\n").status, 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n").status, 400);
  EXPECT_EQ(
      refusal_of("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").status,
      400);
}

// 505 tells a client to speak another version, so it is for one that has spoken of a version.
TEST(RequestReader, AMalformedRequestLineIsNoOtherVersion) {
  for (const std::string line : {"GET /foo bar HTTP/1.1",
                                 "GET /version HTTP/1.1 ",
                                 "GET  / HTTP/1.1",
                                 "GET /  HTTP/1.1",
                                 " GET / HTTP/1.1",
                                 "GET / HTTP/",
                                 "GET / HTTP/1",
                                 "GET / HTTP/1.",
                                 "GET / HTTP/2",
                                 "GET / HTTP/1.10",
                                 "GET / HTTP/11.1",
                                 "GET / HTTP/2.0 ",
                                 "GET / http/1.1",
                                 "GET / ICY",
                                 "GET /",
                                 "GET",
                                 "G(T / HTTP/1.1",
                                 "GET /\x01 HTTP/1.1",
                                 "GET /\tx HTTP/1.1",
                                 "GET / HTTP/1.1\r"}) {
    const std::string bytes = line + "\r\nHost: h\r\n\r\n";
    const auto refusal = refusal_of(bytes);
    EXPECT_EQ(refusal.status, 400) << line;
    EXPECT_NE(refusal.message.find("\"METHOD target HTTP/1.1\""), std::string::npos)
        << refusal.message;
    RequestReader slow({});
    feed_in_steps(slow, bytes, 1);
    ASSERT_EQ(slow.state(), State::kRefused) << line;
    EXPECT_EQ(slow.refusal().message, refusal.message);
  }
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\nHost: h\n\n").status, 400);
  for (const std::string version : {"HTTP/2.0", "HTTP/0.9", "HTTP/9.9"}) {
    const auto refusal = refusal_of("PRI * " + version + "\r\n\r\n");
    EXPECT_EQ(refusal.status, 505);
    EXPECT_NE(refusal.message.find("came \"" + version + "\""), std::string::npos);
  }
}

TEST(RequestReader, LaterMinorVersionsAreReadAsHttp11) {
  for (const char minor : {'2', '9'}) {
    const std::string bytes =
        std::string("POST /a?b HTTP/1.") + minor + "\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi";
    for (std::size_t step = 1; step <= bytes.size(); ++step) {
      RequestReader reader({});
      EXPECT_EQ(feed_in_steps(reader, bytes, step), "") << step;
      ASSERT_EQ(reader.state(), State::kComplete) << step;
      EXPECT_TRUE(reader.keep_alive());
      EXPECT_TRUE(reader.is_http_1_1());
      const Request request = reader.take();
      EXPECT_EQ(request.target, "/a?b");
      EXPECT_EQ(request.body, "hi");
    }
  }
  EXPECT_EQ(refusal_of("GET / HTTP/1.7\r\n\r\n").status, 400);  // without a Host
}

TEST(RequestReader, ATlsClientIsToldAtOnceWhatIsSpokenHere) {
  EXPECT_NE(refusal_of("\x16\x03\x01").message.find("plain HTTP"), std::string::npos);
}

TEST(RequestReader, RefusalsSayWhatWasExpectedAndWhatCame) {
  const auto told = [](std::string_view lines) {
    const auto refusal = refusal_of("GET / HTTP/1.1\r\n" + std::string(lines) + "\r\n\r\n");
    EXPECT_EQ(refusal.status, 400) << lines;
    EXPECT_LT(refusal.message.size(), 300U);
    return refusal.message;
  };
  const std::string form =
      "a header line must be \"name: value\" without spaces in the name; came ";
  EXPECT_EQ(told("Host h"), form + "\"Host h\"");
  EXPECT_EQ(told("Host : h"), form + "\"Host :\"");
  EXPECT_EQ(told(": h"), form + "\":\"");
  EXPECT_EQ(told("X\x1b: secret"), form + "\"X\"");
  EXPECT_EQ(told(std::string(5000, '\x80')), form + "\"" + std::string(100, '?') + "...\"");
  const std::string end = "a header line must end in CR LF and hold no other control byte; came ";
  EXPECT_EQ(told("Host: h\nX: y"), end + "byte 0x0a of \"Host\"");
  EXPECT_EQ(told("Host: h\rX: y"), end + "'X' behind the CR of \"Host\"");
  EXPECT_EQ(told("X: \x01"), end + "byte 0x01 of \"X\"");
  EXPECT_EQ(told("Content-Length: -1"),
            "Content-Length must be a decimal number, and come once and without "
            "Transfer-Encoding; came \"-1\"");
  EXPECT_NE(told("Host: h\r\nContent-Length: 5\r\nContent-Length: 6").find("once"),
            std::string::npos);
  EXPECT_EQ(told("Host: h\r\n\rX: y"), end + "'X' behind the CR of an empty line");
  EXPECT_NE(told("X: " + std::string(5000, 'a') + "\r\n b").find("second line"), std::string::npos);
  EXPECT_EQ(told("Connection: a b"), "Connection must be names separated by commas; came \"a b\"");
  EXPECT_NE(told("Host: h/\x80").find("came \"h/?\""), std::string::npos);
}

// A front that goes on for another one reads the same bytes in other pieces.
TEST(RequestReader, RefusesTheSameAtTheSameByteHoweverTheyAreCut) {
  const RequestLimits limits{.header_bytes_max = 200, .header_fields_max = 4};
  const std::string line = "GET / HTTP/1.1\r\n";
  for (const std::string& bytes : {line + "Host: h\n\n",
                                   line + "Bad Line\r\n",
                                   line + "Host: h\r\nBad Line\r\nX: y\r\n",
                                   line + "Host: h\rX: y\r\n",
                                   line + "Host: h\r\n\rX",
                                   line + "Host: h\r\n folded",
                                   line + "Host: h\r\nX: \x01",
                                   line + "Host: h\r\nX: " + std::string(200, 'a'),
                                   line + "a:\r\na:\r\na:\r\na:\r\na:\r\n",
                                   line + "Host: h\r\nContent-Length: x\r\nX: y\r\n\r\n",
                                   std::string("GET / HTTP/2.0\r\n"),
                                   std::string("GE\x01")}) {
    const auto whole = refusal_of(bytes, limits);
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      RequestReader reader(limits);
      std::string pending = bytes.substr(0, cut);
      pending.erase(0, reader.feed(pending));
      if (reader.state() == State::kHeader) {
        pending += bytes.substr(cut);
        pending.erase(0, reader.feed(pending));
      }
      ASSERT_EQ(reader.state(), State::kRefused) << bytes << cut;
      EXPECT_EQ(reader.refusal().status, whole.status) << bytes << cut;
      EXPECT_EQ(reader.refusal().message, whole.message) << bytes << cut;
    }
  }
}

TEST(RequestReader, AsFarAsItHasComeItTellsItsHeader) {
  RequestReader reader({});
  EXPECT_FALSE(reader.is_head());
  EXPECT_EQ(reader.head().method, "");
  feed_in_steps(reader, "HEAD ", 5);
  EXPECT_TRUE(reader.is_head());
  feed_in_steps(reader, "/a HTTP/1.1\r\nOrigin:\t http://b \r\nX:\r\nHo", 3);
  const Request head = reader.head();
  EXPECT_EQ(head.method, "HEAD");
  EXPECT_EQ(head.target, "/a");
  ASSERT_EQ(head.headers.fields().size(), 2U);
  EXPECT_EQ(*head.headers.find("origin"), "http://b");
  EXPECT_EQ(*head.headers.find("x"), "");
  for (const std::string_view bytes : {"HEAD / HTTP/2.0\r\n", "HEAD /a b HTTP/1.1\r\n"}) {
    RequestReader refused({});
    feed_in_steps(refused, bytes, 100);
    EXPECT_EQ(refused.state(), State::kRefused);
    EXPECT_TRUE(refused.is_head()) << bytes;
  }
}

TEST(RequestReader, OnlyContinueCanBeExpected) {
  const auto head = [](std::string_view fields, std::string_view version = "HTTP/1.1") {
    return "POST / " + std::string(version) + "\r\nHost: h\r\n" + std::string(fields) +
           "\r\nContent-Length: 1\r\n\r\n";
  };
  for (const char* fields : {"Expect: 100-continue, x",
                             "Expect: a miracle",
                             "Expect: 100-continue\r\nExpect: x",
                             "Expect: 100-continue=1"}) {
    EXPECT_EQ(refusal_of(head(fields)).status, 417) << fields;
    EXPECT_EQ(state_after(head(fields, "HTTP/1.0")), State::kBody) << fields;
  }
  for (const char* fields : {"Expect: 100-continue, 100-CONTINUE",
                             "Expect: , 100-continue ,",
                             "Expect: 100-continue\r\nExpect: 100-continue"}) {
    RequestReader reader({});
    feed_in_steps(reader, head(fields), 7);
    ASSERT_EQ(reader.state(), State::kBody) << fields;
    EXPECT_TRUE(reader.take_expects_continue()) << fields;
    EXPECT_FALSE(reader.take_expects_continue()) << fields;
  }
  for (const char* version : {"HTTP/1.1", "HTTP/1.0"}) {
    RequestReader reader({});
    feed_in_steps(reader, head("Expect:", version), 99);
    EXPECT_FALSE(reader.take_expects_continue());
  }
}

TEST(RequestReader, RefusesFramingOnWhichTwoReadersCouldDisagree) {
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\n\r\n").message,
            "an HTTP/1.1 request must have exactly one Host field");
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").status, 400);
  for (const std::string length : {"3, 3", "3 ", "+3", "0x3", "", "3,", "18446744073709551616"}) {
    const std::string bytes =
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + length + "\r\n\r\nabc";
    if (length == "3 ") {  // blanks are no part of a value
      EXPECT_EQ(state_after(bytes), State::kComplete);
    } else {
      EXPECT_EQ(refusal_of(bytes).status, 400) << length;
    }
  }
  EXPECT_EQ(refusal_of("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
                .status,
            400);
  EXPECT_EQ(
      refusal_of("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc")
          .status,
      400);
  EXPECT_EQ(
      refusal_of("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
          .status,
      501);
}

TEST(RequestReader, RefusesAFoldedField) {
  const std::string folded = "GET / HTTP/1.1\r\nHost: h\r\nX-Thing: a\r\n";
  EXPECT_EQ(refusal_of(folded + " b\r\n\r\n").status, 400);
  EXPECT_EQ(refusal_of(folded + "\tb\r\n\r\n").status, 400);
  RequestReader reader({});
  feed_in_steps(reader, folded + " b\r\n\r\n", 1);
  EXPECT_EQ(reader.state(), State::kRefused);
}

TEST(RequestReader, RefusesAHostThatIsNone) {
  for (const std::string host :
       {"",     " ",     "a b",           "a,b",         "user@h",
        "h/x",  "\"h\"", "h:evil.com",    "h:80:80",     "h:abc",
        "h:-1", "h:+1",  "h:8 0",         "h:65536",     "h:999999999999999999999",
        ":80",  "::1",   "[::1]evil.com", "[::1]:99999", "[::1]:x",
        "[::1", "[]",    "[h]",           "[::1%]",      "[::1]]",
        "h]",   "h[0]"}) {
    EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status, 400) << host;
    if (host == "h/x") {
      continue;  // a host and a path
    }
    EXPECT_EQ(refusal_of("GET http://" + host + "/ HTTP/1.1\r\nHost: h\r\n\r\n").status, 400)
        << host;
  }
  for (const std::string host : {"h:",
                                 "h:0",
                                 "h:00080",
                                 "h:65535",
                                 "[::1]:",
                                 "[::1]",
                                 "a_b.c.:1",
                                 "[fe80::1%25eth0]:80",
                                 "[::ffff:127.0.0.1]",
                                 "1.2.3.4:5"}) {
    EXPECT_EQ(state_after("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"), State::kComplete)
        << host;
    EXPECT_EQ(state_after("GET http://" + host + " HTTP/1.1\r\nHost: h\r\n\r\n"), State::kComplete)
        << host;
  }
  EXPECT_EQ(refusal_of("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n").status, 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.0\r\nHost:\r\n\r\n").status, 400);
  EXPECT_EQ(state_after("GET / HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n"), State::kComplete);
}

TEST(RequestReader, RefusesTransferEncodingThatIsNotThatOfHttp11) {
  EXPECT_EQ(refusal_of("POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "0\r\n\r\n")
                .status,
            400);
  EXPECT_EQ(refusal_of("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
                .status,
            400);
  EXPECT_EQ(
      refusal_of("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc")
          .status,
      400);
}

// RFC 9112 §6.3: of such a body nobody knows the end.
TEST(RequestReader, TheLastCodingMustBeChunked) {
  const auto status_of = [](const std::string& fields) {
    return refusal_of("POST / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n\r\n0\r\n\r\n").status;
  };
  for (const char* fields : {"Transfer-Encoding: chunked, deflate",
                             "Transfer-Encoding: chunked\r\nTransfer-Encoding: deflate",
                             "Transfer-Encoding: pigeons",
                             "Transfer-Encoding: identity",
                             "Transfer-Encoding: xchunked",
                             "Transfer-Encoding: chunked;a=b",
                             "Transfer-Encoding: chunked, chunked",
                             "Transfer-Encoding: chunked, gzip, chunked",
                             "Transfer-Encoding: chunked,",
                             "Transfer-Encoding: \"chunked\"",
                             "Transfer-Encoding:"}) {
    EXPECT_EQ(status_of(fields), 400) << fields;
  }
  for (const char* fields : {"Transfer-Encoding: gzip, chunked",
                             "Transfer-Encoding: gzip ,\tCHUNKED",
                             "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"}) {
    EXPECT_EQ(status_of(fields), 501) << fields;
  }
}

// However it is cut: fields that are used up one by one count together.
TEST(RequestReader, TheLimitOfTheHeaderIsOfAllOfIt) {
  const RequestLimits limits{.header_bytes_max = 1000};
  std::string bytes = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 19; ++i) {
    bytes += "X: " + std::string(90, 'a') + "\r\n";
  }
  for (const std::size_t step : {std::size_t{1}, std::size_t{97}, std::size_t{900}}) {
    RequestReader reader(limits);
    feed_in_steps(reader, bytes + "\r\n", step);
    ASSERT_EQ(reader.state(), State::kRefused) << step;
    EXPECT_EQ(reader.refusal().status, 431) << step;
  }
}

TEST(RequestReader, RefusesMoreFieldsThanItsLimit) {
  const RequestLimits limits{.header_fields_max = 10};
  std::string fields = "Host: h\r\n";
  for (int i = 1; i < 10; ++i) {
    fields += "a: b\r\n";
  }
  EXPECT_EQ(state_after("GET / HTTP/1.1\r\n" + fields + "\r\n", limits), State::kComplete);
  const auto refusal = refusal_of("GET / HTTP/1.1\r\n" + fields + "a: b\r\n\r\n", limits);
  EXPECT_EQ(refusal.status, 431);
  EXPECT_NE(refusal.message.find("10 header fields"), std::string::npos);
}

TEST(RequestReader, AsksItsCheckBeforeTheBody) {
  const auto check = [](const Request& head) -> std::optional<RequestReader::Refusal> {
    EXPECT_EQ(head.method, "POST");
    EXPECT_NE(head.headers.find("x-thing"), nullptr);
    if (head.path == "/v1/a b") {
      return RequestReader::Refusal{421, "not here"};
    }
    return std::nullopt;
  };
  RequestReader reader({}, check);
  feed_in_steps(reader, kPost.substr(0, kPost.size() - 5), 1000);
  ASSERT_EQ(reader.state(), State::kRefused);
  EXPECT_EQ(reader.refusal().status, 421);
  EXPECT_EQ(reader.refusal().message, "not here");
}

TEST(RequestReader, RefusesTargetsThatAreNoPath) {
  EXPECT_EQ(refusal_of("GET v1 HTTP/1.1\r\nHost: h\r\n\r\n").status, 400);
  EXPECT_EQ(refusal_of("GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n").status, 400);
  EXPECT_EQ(refusal_of("GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n").status, 400);
  EXPECT_EQ(refusal_of("GET /a%4 HTTP/1.1\r\nHost: h\r\n\r\n").status, 400);
  EXPECT_EQ(refusal_of("GET https://h/ HTTP/1.1\r\nHost: h\r\n\r\n").status, 400);
}

// A check of names that finds none there would let every name of the Host field pass.
TEST(RequestReader, RefusesAbsoluteTargetsWithoutAHost) {
  for (const std::string target :
       {"http://", "http:///a", "http://?/a", "http://user@h/a", "http://h#/a", "http://a,b/"}) {
    EXPECT_EQ(refusal_of("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n").status, 400) << target;
  }
}

TEST(RequestReader, TakesThePathOutOfAnAbsoluteTarget) {
  struct Case {
    std::string target;
    std::string path;
    std::string query;
  };
  for (const Case& c : {Case{"http://host:80/a?b", "/a", "b"},
                        Case{"HTTP://host:80/a?b", "/a", "b"},
                        Case{"http://host", "/", ""},
                        Case{"http://host/", "/", ""},
                        Case{"http://host?b=/live", "/", "b=/live"},
                        Case{"http://host/a?b=/live", "/a", "b=/live"}}) {
    RequestReader reader({});
    feed_in_steps(reader, "GET " + c.target + " HTTP/1.1\r\nHost: h\r\n\r\n", 100);
    ASSERT_EQ(reader.state(), State::kComplete) << c.target;
    const Request request = reader.take();
    EXPECT_EQ(request.path, c.path) << c.target;
    EXPECT_EQ(request.query, c.query) << c.target;
  }
}

}  // namespace
}  // namespace phalanx::http
