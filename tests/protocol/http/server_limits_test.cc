// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "http_harness.h"

namespace phalanx::http {
namespace {

ServerOptions small_limits() {
  ServerOptions options;
  options.limits.header_bytes_max = 2000;
  options.limits.body_bytes_max = 5000;
  options.format_error = [](int status, const std::string& message) {
    return json_response(
        status, "{\"status\":" + std::to_string(status) + ",\"message\":\"" + message + "\"}");
  };
  return options;
}

// The answer to `bytes`, which must end the connection in an orderly way.
Response refused(const ServerOptions& options, std::string_view bytes) {
  RunningServer server(options, echo);
  RawClient client(server.port());
  client.send(bytes);
  auto response = client.read_response();
  if (!response) {
    ADD_FAILURE() << "no answer";
    return {};
  }
  EXPECT_EQ(*response->headers.find("connection"), "close");
  EXPECT_EQ(*response->headers.find("content-type"), "application/json");
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_EQ(server.counters().requests, 0U);
  EXPECT_EQ(server.counters().requests_refused, 1U);
  return *std::move(response);
}

TEST(ServerLimits, RefusesALargeHeader) {
  const Response response =
      refused(small_limits(), get("/", "X-Big: " + std::string(100000, 'a') + "\r\n"));
  EXPECT_EQ(response.status, 431);
  EXPECT_NE(response.body.text().find("2000 bytes"), std::string::npos);
}

TEST(ServerLimits, RefusesALargeBodyWhoseClientSendsOn) {
  const Response response = refused(small_limits(), post("/", std::string(3'000'000, 'a')));
  EXPECT_EQ(response.status, 413);
  EXPECT_NE(response.body.text().find("5000 bytes"), std::string::npos);
}

TEST(ServerLimits, RefusesWhatIsNotHttp) {
  EXPECT_EQ(refused(small_limits(), "hello\r\n\r\n").status, 400);
}

// Without waiting for the body that it holds back.
TEST(ServerLimits, AnExpectationThatIsNotMetIsAnsweredAtOnce) {
  const Response response = refused(small_limits(),
                                    "POST / HTTP/1.1\r\nHost: localhost\r\n"
                                    "Expect: 100-continue, x\r\nContent-Length: 10\r\n\r\n");
  EXPECT_EQ(response.status, 417);
  EXPECT_EQ(reason_phrase(417), "Expectation Failed");
}

TEST(ServerLimits, ATlsClientIsToldAtOnceWhatIsSpokenHere) {
  const Response response = refused(small_limits(), "\x16\x03\x01");
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.text().find("plain HTTP"), std::string::npos);
}

TEST(ServerLimits, AHeaderMustArriveInTime) {
  ServerOptions options = small_limits();
  options.header_timeout = milliseconds(40);
  EXPECT_EQ(refused(options, "GET / HTTP/1.1\r\nHost: localhost\r\n").status, 408);
}

TEST(ServerLimits, ABodyMustArriveInTime) {
  ServerOptions options = small_limits();
  options.body_timeout = milliseconds(40);
  EXPECT_EQ(
      refused(options, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab").status,
      408);
}

TEST(ServerLimits, ASilentConnectionIsClosedWithoutAWord) {
  ServerOptions options = small_limits();
  options.idle_timeout = milliseconds(40);
  RunningServer server(options, echo);
  RawClient client(server.port());
  client.send(get("/"));
  ASSERT_TRUE(client.read_response());
  EXPECT_TRUE(client.closed_by_server());
}

TEST(ServerLimits, AConnectionThatIsRefusedIsToldWhy) {
  RunningServer server(small_limits(), echo);
  server.call([&] { server.acceptor().refuse("no place is left"); });
  RawClient client(server.port());
  const auto response = client.read_response();  // nothing was asked
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 503);
  EXPECT_NE(response->headers.find("retry-after"), nullptr);
  EXPECT_NE(response->body.text().find("no place is left"), std::string::npos);
  EXPECT_TRUE(client.closed_by_server());
  client.close();
  EXPECT_TRUE(server.eventually([&] { return server.acceptor().closed() == 1; }));
  EXPECT_EQ(server.counters().requests, 0U);
}

TEST(ServerLimits, EndlessExtensionsAndTrailersAreRefused) {
  const std::string chunked =
      "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(refused(small_limits(), chunked + "5;" + std::string(3'000'000, 'x')).status, 400);
  EXPECT_EQ(refused(small_limits(), chunked + "0\r\nX: " + std::string(3'000'000, 'x')).status,
            431);
}

TEST(ServerLimits, ForeignNamesAndOriginsAreRefusedBeforeTheirBody) {
  const Response host = refused(
      small_limits(), "POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 4000\r\n\r\n");
  EXPECT_EQ(host.status, 421);
  EXPECT_NE(host.body.text().find("--allowed-hosts"), std::string::npos);
  const Response origin = refused(small_limits(),
                                  "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: "
                                  "https://evil.example\r\nContent-Length: 4000\r\n\r\n");
  EXPECT_EQ(origin.status, 403);
  EXPECT_NE(origin.body.text().find("--allowed-origins"), std::string::npos);
}

TEST(ServerLimits, AnAllowedOriginMayReadTheAnswer) {
  ServerOptions options = small_limits();
  options.allowed_hosts = {"llm.example"};
  options.allowed_origins = {"https://chat.example"};
  RunningServer server(options, echo);
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: llm.example\r\nOrigin: https://chat.example\r\n\r\n" +
              get("/"));
  auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 200);
  ASSERT_NE(response->headers.find("access-control-allow-origin"), nullptr);
  EXPECT_EQ(*response->headers.find("access-control-allow-origin"), "https://chat.example");
  response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->headers.find("access-control-allow-origin"), nullptr);
}

// Else its page sees a network that failed, and not that the request was too large.
TEST(ServerLimits, AnAllowedOriginMayReadTheRefusal) {
  const std::string fields =
      "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n";
  const Response body =
      refused(small_limits(), fields + "Content-Length: 6000\r\n\r\n" + std::string(6000, 'a'));
  EXPECT_EQ(body.status, 413);
  ASSERT_NE(body.headers.find("access-control-allow-origin"), nullptr);
  EXPECT_EQ(*body.headers.find("access-control-allow-origin"), "http://localhost:3000");
  const Response header =
      refused(small_limits(), fields + "X-Big: " + std::string(100000, 'a') + "\r\n\r\n");
  EXPECT_EQ(header.status, 431);
  EXPECT_NE(header.headers.find("access-control-allow-origin"), nullptr);
  const Response foreign = refused(small_limits(),
                                   "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: "
                                   "https://evil.example\r\nContent-Length: 6000\r\n\r\n");
  EXPECT_EQ(foreign.status, 413);
  EXPECT_EQ(foreign.headers.find("access-control-allow-origin"), nullptr);
}

}  // namespace
}  // namespace phalanx::http
