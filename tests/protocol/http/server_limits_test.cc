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

TEST(ServerLimits, RefusesBodiesBeyondWhatAllMayHold) {
  ServerOptions options = small_limits();
  options.body_bytes_total_max = 1000;
  const Response response =
      refused(options,
              "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\n" +
                  std::string(2000, 'a'));
  EXPECT_EQ(response.status, 503);
  EXPECT_NE(response.headers.find("retry-after"), nullptr);
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
  EXPECT_NE(response->body.text().find("2 connections"), std::string::npos);
  first.close();
  ASSERT_TRUE(server.eventually([&] { return server.server().connections() < 3; }));
  second.send(get("/"));
  EXPECT_TRUE(second.read_response());
}

TEST(ServerLimits, RefusesConnectionsOfOneAddressBeyondItsShare) {
  ServerOptions options = small_limits();
  options.connections_per_address_max = 2;
  RunningServer server(options, echo);
  RawClient first(server.port());
  RawClient second(server.port());
  ASSERT_TRUE(server.eventually([&] { return server.server().connections() == 2; }));
  const auto response = RawClient(server.port()).read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 503);
  EXPECT_NE(response->body.text().find("--max-connections-per-address"), std::string::npos);
  EXPECT_EQ(server.counters().connections_refused, 1U);
  // Another address of loopback has a share of its own.
  RawClient other(server.port(), 0, "127.0.0.2");
  other.send(get("/"));
  EXPECT_TRUE(other.read_response());
  first.close();
  ASSERT_TRUE(server.eventually([&] { return server.server().connections() == 2; }));
  RawClient third(server.port());
  third.send(get("/"));
  const auto served = third.read_response();
  ASSERT_TRUE(served);
  EXPECT_EQ(served->status, 200);
}

TEST(ServerLimits, LoopbackHasNoShareUnlessOneIsSet) {
  ServerOptions options = small_limits();
  options.connections_max = 8;  // of which another address would have two
  RunningServer server(options, echo);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(get("/"));
    const auto response = clients.back()->read_response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
  }
}

TEST(ServerLimits, AConnectionThatIsRefusedTakesNobodysPlace) {
  ServerOptions options = small_limits();
  options.connections_max = 3;
  options.connections_per_address_max = 1;
  RunningServer server(options, echo);
  RawClient first(server.port());
  ASSERT_TRUE(server.eventually([&] { return server.server().connections() == 1; }));
  std::vector<std::unique_ptr<RawClient>> refused;
  for (int i = 0; i < 5; ++i) {
    refused.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(refused.back()->read_response());
  }
  RawClient other(server.port(), 0, "127.0.0.2");
  other.send(get("/"));
  const auto response = other.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 200);
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

}  // namespace
}  // namespace phalanx::http
