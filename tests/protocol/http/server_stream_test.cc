// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/http/client.h"
#include "phalanx/http/sse.h"
#include "phalanx/http/sse_parser.h"

#include "http_harness.h"

namespace phalanx::http {
namespace {

using Clock = std::chrono::steady_clock;

// A handler that starts a stream, says one word and keeps it; the test goes on from there.
struct HeldStream {
  void operator()(const Request& /*request*/, const std::shared_ptr<Exchange>& its_exchange) {
    exchange = its_exchange;
    exchange->on_close([this] {
      gone_at = Clock::now();
      gone = true;
      exchange.reset();
    });
    exchange->start_stream(200, sse_headers());
    exchange->write(sse_event("hello"));
  }

  std::shared_ptr<Exchange> exchange;
  std::atomic<bool> gone = false;
  Clock::time_point gone_at;
};

TEST(ServerStream, WritesOneChunkPerEvent) {
  RunningServer server({}, [](const Request&, const std::shared_ptr<Exchange>& exchange) {
    exchange->start_stream(200, sse_headers());
    exchange->write("data: one\n\n");
    exchange->write("data: two\n\n");
    exchange->finish();
  });
  RawClient client(server.port());
  client.send(get("/"));
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("transfer-encoding: chunked"), std::string::npos);
  EXPECT_NE(head.find("text/event-stream"), std::string::npos);
  EXPECT_EQ(client.read_until("0\r\n\r\n"),
            "b\r\ndata: one\n\n\r\nb\r\ndata: two\n\n\r\n0\r\n\r\n");
  client.send(get("/"));
  EXPECT_TRUE(client.read_response()) << "the connection goes on behind a stream";
}

TEST(ServerStream, EndsByTheConnectionForAClientWithoutChunks) {
  RunningServer server({}, [](const Request&, const std::shared_ptr<Exchange>& exchange) {
    exchange->start_stream(200, {});
    exchange->write("data");
    exchange->finish();
  });
  RawClient client(server.port());
  client.send("GET / HTTP/1.0\r\n\r\n");
  const auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "data");
  EXPECT_EQ(response->headers.find("transfer-encoding"), nullptr);
}

TEST(ServerStream, SeesAtOnceThatTheClientHasGone) {
  const std::vector<std::function<void(RawClient&)>> ways = {
      [](RawClient& client) { client.close(); },
      [](RawClient& client) { client.reset(); },
      [](RawClient& client) { client.shutdown_sending(); }};
  for (const auto& leave : ways) {
    HeldStream stream;
    RunningServer server({}, std::ref(stream));
    RawClient client(server.port());
    client.send(get("/"));
    client.read_until("hello\n\n");
    const auto left_at = Clock::now();
    leave(client);
    ASSERT_TRUE(server.eventually([&] { return stream.gone.load(); }));
    EXPECT_LT(stream.gone_at - left_at, milliseconds(250));
    EXPECT_EQ(server.counters().clients_gone, 1U);
    EXPECT_TRUE(server.eventually([&] { return server.server().connections() == 0; }));
  }
}

TEST(ServerStream, SeesThatAClientWithAPipelinedRequestHasGone) {
  HeldStream stream;
  RunningServer server({}, std::ref(stream));
  RawClient client(server.port());
  client.send(get("/") + get("/next"));
  client.read_until("hello\n\n");
  client.close();
  EXPECT_TRUE(server.eventually([&] { return stream.gone.load(); }));
  EXPECT_EQ(server.counters().requests, 1U);
}

// The server reads no more of it, for what has come fills its buffer; the rest is with the kernel.
TEST(ServerStream, SeesThatAClientWithMuchBehindItsRequestHasGone) {
  const std::vector<std::function<void(RawClient&)>> ways = {
      [](RawClient& client) { client.close(); }, [](RawClient& client) { client.reset(); }};
  for (const auto& leave : ways) {
    HeldStream stream;
    ServerOptions options;
    options.limits.header_bytes_max = 4096;
    RunningServer server(options, std::ref(stream));
    RawClient client(server.port());
    client.send(get("/"));
    client.read_until("hello\n\n");
    client.send("POST /next HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n" +
                std::string(40'000, 'x'));
    leave(client);
    EXPECT_TRUE(server.eventually([&] { return stream.gone.load(); }));
    EXPECT_EQ(server.counters().clients_gone, 1U);
  }
}

TEST(ServerStream, TellsALateListenerThatTheClientHasGone) {
  std::shared_ptr<Exchange> held;
  RunningServer server(
      {}, [&](const Request&, const std::shared_ptr<Exchange>& exchange) { held = exchange; });
  RawClient client(server.port());
  client.send(get("/"));
  ASSERT_TRUE(server.eventually([&] { return held != nullptr; }));
  client.close();
  ASSERT_TRUE(server.eventually([&] { return !held->open(); }));
  bool told = false;
  server.call([&] {
    held->on_close([&] { told = true; });
    EXPECT_FALSE(told) << "never from inside the call";
    held->respond(text_response(200, "too late"));
    held.reset();
  });
  EXPECT_TRUE(server.eventually([&] { return told; }));
}

// A stream to a client with a small buffer, that has read its first word.
struct SmallClient {
  explicit SmallClient(std::size_t pending_bytes_max)
      : server(options(pending_bytes_max), std::ref(stream)), client(server.port(), 4096) {
    client.send(get("/"));
    client.read_until("hello\n\n");
  }

  static ServerOptions options(std::size_t pending_bytes_max) {
    ServerOptions result;
    result.stream_pending_bytes_max = pending_bytes_max;
    return result;
  }

  // To be called on the loop. What waits then.
  std::size_t write(std::size_t bytes) {
    if (stream.exchange) {
      stream.exchange->write(std::string(bytes, 'x'));
    }
    return stream.exchange ? stream.exchange->pending_bytes() : 0;
  }

  // Writes until the client is dropped; the most that waited.
  std::size_t write_until_dropped() {
    std::size_t most = 0;
    EXPECT_TRUE(server.eventually([&] {
      most = std::max(most, write(10'000));
      written += 10'000;
      return stream.gone.load();
    }));
    EXPECT_EQ(server.counters().clients_too_slow, 1U);
    return most;
  }

  HeldStream stream;
  RunningServer server;
  RawClient client;
  std::size_t written = 0;
};

TEST(ServerStream, DropsAClientThatDoesNotKeepUp) {
  SmallClient small(100'000);
  EXPECT_LE(small.write_until_dropped(), 100'000U);
  EXPECT_LT(small.written, 20'000'000U);
}

TEST(ServerStream, DropsAClientThatReadsInGulpsAndDoesNotKeepUp) {
  SmallClient small(100'000);
  std::size_t most = 0;
  for (int i = 0; i < 20'000 && !small.stream.gone; ++i) {
    most = std::max(most, small.server.call([&] { return small.write(10'000); }));
    if (i % 4 == 0) {
      small.client.read_until("x\r\n");
    }
  }
  EXPECT_TRUE(small.stream.gone) << "it takes a quarter of what comes";
  EXPECT_LE(most, 110'000U);
}

// As the echo of a large prompt: what it takes to send that is no slowness of the client.
TEST(ServerStream, APieceLargerThanTheBufferCutsNobodyWhoReads) {
  constexpr std::size_t kPiece = 16'000'000;
  SmallClient small(100'000);
  const auto pending = [&] { return small.stream.exchange->pending_bytes(); };
  small.server.call([&] { small.write(kPiece); });
  ASSERT_TRUE(small.server.eventually([&] { return pending() < kPiece; }));
  small.server.call([&] { small.stream.exchange->write("next"); });
  EXPECT_GT(small.client.read_until("next").size(), kPiece);
  ASSERT_TRUE(small.server.eventually([&] { return pending() == 0; }));

  small.server.call([&] { small.write(kPiece); });
  ASSERT_TRUE(small.server.eventually([&] { return pending() < kPiece; }));
  EXPECT_LE(small.write_until_dropped(), kPiece + 200'000U) << "it reads nothing any more";
}

TEST(ServerStream, DropsAClientThatTakesNothing) {
  HeldStream stream;
  ServerOptions options;
  options.write_timeout = milliseconds(60);
  options.stream_pending_bytes_max = std::size_t{64} << 20;
  RunningServer server(options, std::ref(stream));
  RawClient client(server.port(), 4096);
  client.send(get("/"));
  client.read_until("hello\n\n");
  server.call([&] { stream.exchange->write(std::string(std::size_t{16} << 20, 'x')); });
  EXPECT_TRUE(server.eventually([&] { return stream.gone.load(); }));
  EXPECT_EQ(server.counters().clients_too_slow, 1U);
}

// What others have to do comes in between.
TEST(ServerStream, SendsALargePieceInTurns) {
  constexpr std::size_t kBytes = std::size_t{2} << 20;
  constexpr std::size_t kMostPerTurn = std::size_t{64} << 10;
  HeldStream stream;
  RunningServer server({}, std::ref(stream));
  RawClient client(server.port());
  client.send(get("/"));
  client.read_until("hello\n\n");
  std::vector<std::size_t> pending;
  std::function<void()> look = [&] {
    pending.push_back(stream.exchange->pending_bytes());
    if (pending.back() > 0) {
      server.loop().post(look);
    }
  };
  server.call([&] {
    stream.exchange->write(std::string(kBytes, 'x'));
    EXPECT_GE(stream.exchange->pending_bytes(), kBytes) << "nothing is sent in the call";
    look();
  });
  const std::string received = client.read_until("x\r\n");
  EXPECT_GE(received.size(), kBytes);
  ASSERT_TRUE(server.eventually([&] { return pending.back() == 0; }));
  for (std::size_t i = 1; i < pending.size(); ++i) {
    ASSERT_LE(pending[i - 1] - pending[i], kMostPerTurn);
  }
  server.call([&] { stream.exchange.reset(); });
}

// Counts what is copied for whoever may go on with a connection, and keeps nothing.
class CountingJournal final : public Journal {
 public:
  explicit CountingJournal(std::size_t& appended) : appended_(appended) {}
  std::span<char> room() override { return room_; }
  void received(std::size_t /*bytes*/) override {}
  void append(std::string_view bytes, std::uint64_t /*sent*/) override {
    appended_ += bytes.size();
  }
  void publish(const ConnectionState& /*state*/, std::uint64_t /*sent*/) override {}
  [[nodiscard]] bool lost() const override { return false; }

 private:
  std::size_t& appended_;
  std::array<char, 4096> room_{};
};

TEST(ServerStream, SendsLargePiecesToManyInTurns) {
  constexpr std::size_t kClients = 16;
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  constexpr std::size_t kMostPerTurn = std::size_t{512}
                                       << 10;  // what one begins ends with its part
  std::vector<std::shared_ptr<Exchange>> streams;
  RunningServer server({}, [&](const Request&, const std::shared_ptr<Exchange>& exchange) {
    exchange->start_stream(200, {});
    exchange->write("hello");
    streams.push_back(exchange);
  });
  std::size_t copied = 0;
  server.call([&] {
    server.acceptor().prepare(
        [&](ConnectionInfo& info) { info.journal = std::make_unique<CountingJournal>(copied); });
  });
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(get("/"));
    clients.back()->read_until("hello\r\n");
  }
  std::size_t before = 0;
  std::size_t most = 0;
  const std::function<void()> look = [&] {
    most = std::max(most, copied - before);
    before = copied;
    if (copied < kClients * kBytes) {
      server.loop().post(look);
    }
  };
  server.call([&] {
    before = copied;
    for (const auto& stream : streams) {
      stream->write(std::string(kBytes, 'x'));
    }
    look();
  });
  for (const auto& client : clients) {
    EXPECT_GE(client->read_until("x\r\n").size(), kBytes);
  }
  EXPECT_TRUE(server.eventually([&] { return copied >= kClients * kBytes; }));
  EXPECT_LE(server.call([&] { return most; }), kMostPerTurn);
  server.call([&] { streams.clear(); });
}

TEST(ServerStream, SendsCommentsWhileItIsQuiet) {
  HeldStream stream;
  ServerOptions options;
  options.comment_interval = milliseconds(30);
  RunningServer server(options, std::ref(stream));
  RawClient client(server.port());
  client.send(get("/"));
  client.read_until("hello\n\n");
  EXPECT_NE(client.read_until(": ping\n\n").find("8\r\n: ping\n\n"), std::string::npos);
  EXPECT_NE(client.read_until(": ping\n\n").find(": ping"), std::string::npos);
  server.call([&] {
    stream.exchange->finish();
    stream.exchange.reset();
  });
  EXPECT_NE(client.read_until("0\r\n\r\n"), "");
}

TEST(ServerStream, AStreamThatIsDroppedIsCutNotEnded) {
  HeldStream stream;
  RunningServer server({}, std::ref(stream));
  RawClient client(server.port());
  client.send(get("/"));
  client.read_until("hello\n\n");
  server.call([&] { stream.exchange.reset(); });
  EXPECT_EQ(client.read_until("0\r\n\r\n").find("0\r\n\r\n"), std::string::npos);
}

// Five hundred clients at once, each with a stream of its own pace, on the loop of the server.
class ManyStreams {
 public:
  static constexpr int kStreams = 500;
  static constexpr int kEvents = 20;

  explicit ManyStreams(os::EventLoop& loop) : loop_(loop), client_(Client::create(loop)) {}

  void serve(const std::shared_ptr<Exchange>& exchange) {
    exchange->start_stream(200, sse_headers());
    exchanges_.emplace_back(exchange, 0);
    if (!ticker_) {
      ticker_ = loop_.call_every(milliseconds(1), [this] { tick(); });
    }
  }

  void ask(std::uint16_t port) {
    for (int i = 0; i < kStreams; ++i) {
      auto stream = std::make_unique<Asked>();
      ClientCallbacks callbacks;
      callbacks.on_data = [this, one = stream.get()](std::string_view bytes) {
        EXPECT_TRUE(one->parser.feed(bytes));
        concurrent_max_ = std::max(concurrent_max_, exchanges_.size());
      };
      callbacks.on_end = [this, one = stream.get()](const Status& status) {
        EXPECT_TRUE(status) << status.error().to_string();
        EXPECT_EQ(one->next, kEvents);
        if (++ended_ == kStreams) {
          loop_.stop();
        }
      };
      stream->call = client_->send({.host = "127.0.0.1", .port = port}, std::move(callbacks));
      streams_.push_back(std::move(stream));
    }
  }

  [[nodiscard]] std::size_t concurrent_max() const { return concurrent_max_; }
  [[nodiscard]] int ended() const { return ended_; }

 private:
  struct Asked {
    int next = 0;
    SseParser parser{
        [this](const SseEvent& event) { EXPECT_EQ(event.data, std::to_string(next++)); }};
    std::unique_ptr<Client::Call> call;
  };

  void tick() {
    for (auto& [exchange, written] : exchanges_) {
      // All streams begin before the first one ends.
      if (written < kEvents && (written + 1 < kEvents || exchanges_.size() == kStreams)) {
        exchange->write(sse_event(std::to_string(written++)));
        if (written == kEvents) {
          exchange->finish();
        }
      }
    }
  }

  os::EventLoop& loop_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<os::EventLoop::Handle> ticker_;
  std::vector<std::pair<std::shared_ptr<Exchange>, int>> exchanges_;
  std::vector<std::unique_ptr<Asked>> streams_;
  std::size_t concurrent_max_ = 0;
  int ended_ = 0;
};

TEST(ServerStream, CarriesFiveHundredStreamsAtOnce) {
  os::EventLoop loop;
  ManyStreams streams(loop);
  Acceptor acceptor(loop);
  ServerOptions options;
  options.on_closed = [&](std::uint64_t id) { acceptor.on_closed(id); };
  auto server =
      Server::create(loop, options, [&](const Request&, const std::shared_ptr<Exchange>& exchange) {
        streams.serve(exchange);
      });
  ASSERT_TRUE(server);
  acceptor.serve(**server);
  streams.ask(acceptor.port());
  const auto guard = loop.call_after(seconds(30), [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(streams.ended(), ManyStreams::kStreams);
  EXPECT_EQ(streams.concurrent_max(), static_cast<std::size_t>(ManyStreams::kStreams));
}

}  // namespace
}  // namespace phalanx::http
