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
  EXPECT_NE(response.body.find("2000 bytes"), std::string::npos);
}

TEST(ServerLimits, RefusesALargeBodyWhoseClientSendsOn) {
  const Response response = refused(small_limits(), post("/", std::string(3'000'000, 'a')));
  EXPECT_EQ(response.status, 413);
  EXPECT_NE(response.body.find("5000 bytes"), std::string::npos);
}

TEST(ServerLimits, RefusesWhatIsNotHttp) {
  EXPECT_EQ(refused(small_limits(), "hello\r\n\r\n").status, 400);
}

TEST(ServerLimits, RefusesBodiesBeyondWhatAllMayHold) {
  ServerOptions options = small_limits();
  options.body_bytes_total_max = 1000;
  const Response response = refused(
      options,
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4000\r\n\r\n" + std::string(2000, 'a'));
  EXPECT_EQ(response.status, 503);
  EXPECT_NE(response.headers.find("retry-after"), nullptr);
}

TEST(ServerLimits, AHeaderMustArriveInTime) {
  ServerOptions options = small_limits();
  options.header_timeout = milliseconds(40);
  EXPECT_EQ(refused(options, "GET / HTTP/1.1\r\nHost: h\r\n").status, 408);
}

TEST(ServerLimits, ABodyMustArriveInTime) {
  ServerOptions options = small_limits();
  options.body_timeout = milliseconds(40);
  EXPECT_EQ(refused(options, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab").status,
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

TEST(ServerLimits, RefusesConnectionsBeyondTheLimit) {
  ServerOptions options = small_limits();
  options.connections_max = 2;
  RunningServer server(options, echo);
  RawClient first(server.port());
  RawClient second(server.port());
  ASSERT_TRUE(server.eventually([&] { return server.server().connections() == 2; }));
  RawClient third(server.port());
  const auto response = third.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 503);
  EXPECT_NE(response->headers.find("retry-after"), nullptr);
  EXPECT_NE(response->body.find("2 connections"), std::string::npos);
  first.close();
  ASSERT_TRUE(server.eventually([&] { return server.server().connections() < 3; }));
  second.send(get("/"));
  EXPECT_TRUE(second.read_response());
}

}  // namespace
}  // namespace phalanx::http
