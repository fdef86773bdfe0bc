// SPDX-License-Identifier: Apache-2.0
// What clients make a server hold, and that beyond its bound nothing more is read: everybody goes
// on in the end, or hears of it when the deadline comes.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "http_harness.h"

namespace phalanx::http {
namespace {

constexpr std::size_t kLimit = 100'000;
constexpr std::size_t kBody = 20'000;

ServerOptions small_memory() {
  ServerOptions options;
  options.limits.header_bytes_max = 2000;
  options.limits.body_bytes_max = 1'000'000;
  options.memory_bytes_max = kLimit;
  return options;
}

std::string head_of(std::size_t body_bytes) {
  return "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body_bytes) +
         "\r\n\r\n";
}

// A server whose handler keeps requests for "/hold" open, with so many bytes for each.
class Holding {
 public:
  Holding(ServerOptions options, std::size_t bytes)
      : server_(std::move(options),
                [this, bytes](const Request& request, const std::shared_ptr<Exchange>& exchange) {
                  if (request.path != "/hold") {
                    return echo(request, exchange);
                  }
                  exchange->hold(bytes);
                  exchange->on_close([this] { kept_.clear(); });
                  kept_.push_back(exchange);
                }) {}
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  ~Holding() {
    server_.call([this] { kept_.clear(); });
  }

  RunningServer& operator*() { return server_; }
  RunningServer* operator->() { return &server_; }

  bool holds(std::size_t requests) {
    return server_.eventually([this, requests] { return kept_.size() == requests; });
  }
  bool somebody_waits() {
    return server_.eventually([this] { return server_.server().counters().memory_waits > 0; });
  }
  std::size_t bytes() {
    return server_.call([this] { return server_.server().memory_bytes(); });
  }

 private:
  std::vector<std::shared_ptr<Exchange>> kept_;
  RunningServer server_;
};

// A body of one byte is admitted, and nothing bounds what comes behind it but that it is not read.
// Over a socket of the machine, which is full when it says so.
TEST(ServerMemory, WhatComesWhileTheWordToGoOnIsStuckIsNotTaken) {
  const ServerOptions options = small_memory();
  RunningServer server(options, echo);
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const os::UniqueFd client(ends[0]);
  const std::string filler(4096, 'x');
  std::size_t filled = 0;
  while (::send(ends[1], filler.data(), filler.size(), MSG_DONTWAIT) > 0) {
    ++filled;
  }
  server.call([&] {
    ConnectionInfo info;
    info.id = 1;
    server.server().adopt(os::UniqueFd(ends[1]), std::move(info));
  });
  const std::string head =
      "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
  ASSERT_GT(::send(ends[0], head.data(), head.size(), 0), 0);
  const auto bytes = [&] { return server.server().memory_bytes(); };
  ASSERT_TRUE(server.eventually([&] { return bytes() > 0; })) << "the body is admitted";

  std::size_t sent = 0;
  std::size_t most = 0;
  for (int turn = 0; turn < 1000; ++turn) {
    const ssize_t count = ::send(ends[0], filler.data(), filler.size(), MSG_DONTWAIT);
    sent += count > 0 ? static_cast<std::size_t>(count) : 0;
    most = std::max(most, server.call(bytes));
  }
  EXPECT_GT(sent, options.limits.header_bytes_max);
  EXPECT_GT(most, options.limits.header_bytes_max) << "some of it is taken";
  EXPECT_LT(most, 20 * options.limits.header_bytes_max);

  for (std::string received(filler.size(), 0); filled > 0; --filled) {
    ASSERT_EQ(::recv(ends[0], received.data(), received.size(), MSG_WAITALL), 4096);
  }
  std::string answer(200, 0);
  ASSERT_GT(::recv(ends[0], answer.data(), answer.size(), 0), 0);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 100 Continue")) << answer;
}

TEST(ServerMemory, HalfBodiesBeyondTheBoundAllComeAndAreAnswered) {
  std::atomic<std::size_t> most = 0;
  RunningServer* running = nullptr;
  RunningServer server(small_memory(),
                       [&](const Request& request, const std::shared_ptr<Exchange>& exchange) {
                         most = std::max(most.load(), running->server().memory_bytes());
                         exchange->respond(text_response(200, std::to_string(request.body.size())));
                       });
  running = &server;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(clients.back()->send(head_of(kBody) + std::string(kBody / 2, 'a')));
  }
  EXPECT_TRUE(server.eventually([&] { return server.server().counters().memory_waits >= 37; }));
  EXPECT_LE(server.call([&] { return server.server().memory_bytes(); }), kLimit + 40 * kBody / 2);
  for (const auto& client : clients) {
    ASSERT_TRUE(client->send(std::string(kBody / 2, 'b')));
  }
  for (const auto& client : clients) {
    const auto response = client->read_response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body.text(), std::to_string(kBody));
  }
  EXPECT_TRUE(server.eventually([&] { return server.server().memory_bytes() == 0; }));
}

TEST(ServerMemory, ChunkedBodiesTakeTurns) {
  ServerOptions options = small_memory();
  options.limits.body_bytes_max = 70'000;
  RunningServer server(options, echo);
  const std::string head =
      "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  RawClient first(server.port());
  RawClient second(server.port());
  first.send(head + "5\r\nfirst\r\n");
  EXPECT_TRUE(server.eventually([&] { return server.server().memory_bytes() > 70'000; }));
  second.send(head + "6\r\nsecond\r\n");
  EXPECT_TRUE(server.eventually([&] { return server.server().counters().memory_waits == 1; }));
  second.send("0\r\n\r\n");
  first.send("0\r\n\r\n");
  EXPECT_EQ(first.read_response()->body.text(), "POST / first");
  EXPECT_EQ(second.read_response()->body.text(), "POST / second");
}

TEST(ServerMemory, ABodyForWhichThereIsNoRoomIsRefusedAtItsDeadline) {
  ServerOptions options = small_memory();
  options.body_timeout = milliseconds(100);
  Holding server(options, kLimit - kBody);
  RawClient holder(server->port());
  holder.send(get("/hold"));
  ASSERT_TRUE(server.holds(1));
  RawClient client(server->port());
  client.send(head_of(kBody) + "a");
  const auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 503);
  EXPECT_NE(response->headers.find("retry-after"), nullptr);
  EXPECT_NE(response->body.text().find("holds all that it may"), std::string::npos);
}

TEST(ServerMemory, ARequestIsReadWhenAnotherClientHasGone) {
  Holding server(small_memory(), kLimit);
  RawClient holder(server->port());
  holder.send(get("/hold"));
  ASSERT_TRUE(server.holds(1));
  RawClient client(server->port());
  client.send(get("/"));
  ASSERT_TRUE(server.somebody_waits());
  EXPECT_EQ(server->counters().requests, 1U);
  holder.close();
  const auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 200);
  client.close();
  EXPECT_TRUE(server->eventually([&] { return server->server().memory_bytes() == 0; }));
}

TEST(ServerMemory, ARequestThatIsNotReadIsRefusedAtTheDeadlineOfItsHeader) {
  ServerOptions options = small_memory();
  options.header_timeout = milliseconds(100);
  Holding server(options, kLimit);
  RawClient holder(server->port());
  holder.send(get("/hold"));
  ASSERT_TRUE(server.holds(1));
  RawClient client(server->port());
  client.send(get("/"));
  const auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 503);
  EXPECT_TRUE(server.holds(1));
}

TEST(ServerMemory, AClientThatLeavesIsHeardOfWhateverIsHeld) {
  Holding server(small_memory(), kLimit);
  RawClient holder(server->port());
  holder.send(get("/hold"));
  ASSERT_TRUE(server.holds(1));
  RawClient idle(server->port());
  EXPECT_TRUE(server->eventually([&] { return server->server().connections() == 2; }));
  idle.close();
  EXPECT_TRUE(server->eventually([&] { return server->server().connections() == 1; }));
}

TEST(ServerMemory, ASlowReaderOfALargeAnswerEndsAtItsDeadlineAndOthersGoOn) {
  ServerOptions options = small_memory();
  options.write_timeout = milliseconds(300);
  RunningServer server(
      options, [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
        exchange->respond(
            text_response(200, std::string(request.path == "/large" ? 30'000'000 : 3, 'x')));
      });
  RawClient slow(server.port(), 4096);
  slow.send(get("/large"));
  EXPECT_TRUE(server.eventually([&] { return server.server().memory_bytes() > kLimit; }));
  RawClient other(server.port());
  other.send(get("/"));
  const auto response = other.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 200);
  const ServerCounters counters = server.counters();
  EXPECT_EQ(counters.memory_waits, 1U);
  EXPECT_EQ(counters.clients_too_slow, 1U);
}

// Every read of them ends in the CR of one that is not complete.
TEST(ServerMemory, EmptyLinesBeforeARequestAreNotKept) {
  std::atomic<std::size_t> held = 0;
  RunningServer* running = nullptr;
  RunningServer server({}, [&](const Request& request, const std::shared_ptr<Exchange>& exchange) {
    held = running->server().memory_bytes();
    echo(request, exchange);
  });
  running = &server;
  RawClient client(server.port());
  client.send("\r");
  ASSERT_TRUE(server.eventually([&] { return server.server().memory_bytes() == 1; }));
  std::string lines;
  for (int i = 0; i < 500'000; ++i) {
    lines += "\n\r";
  }
  ASSERT_TRUE(client.send(lines));
  client.send("\n" + get("/"));
  const auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 200);
  EXPECT_LT(held, 200'000U);
}

// A body that the process before had admitted holds what others wait for, so it never waits itself.
TEST(ServerMemory, WhatAnotherProcessHasReadGoesOnWhateverIsHeld) {
  const std::string head = head_of(400'000);
  Holding server(small_memory(), kLimit);
  RawClient holder(server->port());
  holder.send(get("/hold"));
  ASSERT_TRUE(server.holds(1));
  server->call([&] {
    server->acceptor().prepare([head](ConnectionInfo& info) {
      Resumption left;
      left.state.in_body = true;
      left.received = head + std::string(200'000, 'a');
      info.received = left.received.size();
      info.resumption = std::move(left);
    });
  });
  RawClient client(server->port());
  client.send(std::string(200'000, 'b'));
  const auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(server->counters().memory_waits, 0U);
  EXPECT_GE(server.bytes(), kLimit);
}

}  // namespace
}  // namespace phalanx::http
