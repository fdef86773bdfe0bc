// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/client.h"

#include <gtest/gtest.h>

#include "http_harness.h"

namespace phalanx::http {
namespace {

// What became of one call.
struct Outcome {
  int status = 0;
  std::string body;
  int connections = 0;
  int ends = 0;
  std::optional<Error> error;
};

// A client on the loop of the test; runs it until the calls have ended.
class ClientTest : public testing::Test {
 protected:
  ClientTest() : client_(Client::create(loop_)) {}

  std::unique_ptr<Client::Call> send(ClientRequest request, Outcome* outcome) {
    ++open_;
    request.host = request.host.empty() ? "127.0.0.1" : request.host;
    return client_->send(
        std::move(request),
        {.on_connected = [outcome] { ++outcome->connections; },
         .on_head = [outcome](int status, const Headers&) { outcome->status = status; },
         .on_data = [outcome](std::string_view bytes) { outcome->body += bytes; },
         .on_end =
             [this, outcome](const Status& status) {
               ++outcome->ends;
               if (!status) {
                 outcome->error = status.error();
               }
               if (--open_ == 0) {
                 loop_.stop();
               }
             }});
  }

  void run() {
    const auto guard = loop_.call_after(seconds(10), [this] {
      ADD_FAILURE() << "a call did not end";
      loop_.stop();
    });
    loop_.run();
  }

  Outcome ask(ClientRequest request) {
    Outcome outcome;
    const auto call = send(std::move(request), &outcome);
    run();
    return outcome;
  }

  os::EventLoop loop_;
  std::unique_ptr<Client> client_;
  int open_ = 0;
};

TEST_F(ClientTest, UsesAConnectionAgain) {
  RunningServer server({}, echo);
  for (int i = 0; i < 3; ++i) {
    const Outcome outcome =
        ask({.host = "localhost", .port = server.port(), .method = "POST", .body = "hi"});
    EXPECT_EQ(outcome.status, 200);
    EXPECT_EQ(outcome.body, "POST / hi");
    EXPECT_EQ(outcome.connections, 1) << "one that is kept counts as well";
    EXPECT_EQ(outcome.ends, 1);
    EXPECT_FALSE(outcome.error);
  }
  EXPECT_EQ(server.accepted(), 1U);
}

TEST_F(ClientTest, SendsTheHostThatItIsGivenOrItsOwn) {
  RunningServer server({}, [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(text_response(200, *request.headers.find("host"), "text/plain"));
  });
  ClientRequest request{.host = "localhost", .port = server.port()};
  EXPECT_EQ(ask(request).body, "localhost:" + std::to_string(server.port()));
  request.headers.add("Host", "localhost:1");
  const Outcome outcome = ask(request);
  EXPECT_EQ(outcome.status, 200);
  EXPECT_EQ(outcome.body, "localhost:1");
}

TEST_F(ClientTest, ReplacesAKeptConnectionThatTheServerClosed) {
  ServerOptions options;
  options.idle_timeout = milliseconds(20);
  RunningServer server(options, echo);
  EXPECT_EQ(ask({.host = "", .port = server.port()}).status, 200);
  ASSERT_TRUE(server.eventually([&] { return server.server().connections() == 0; }));
  EXPECT_EQ(ask({.host = "", .port = server.port()}).status, 200);
  EXPECT_EQ(server.accepted(), 2U);
}

// Answers the first request of each of two connections, and ends one behind its second.
class ForgetfulServer {
 public:
  ForgetfulServer() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(fd_.get(), any, size), 0);
    EXPECT_EQ(::listen(fd_.get(), 8), 0);
    EXPECT_EQ(::getsockname(fd_.get(), any, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(2) && serve(1); });
  }
  ForgetfulServer(const ForgetfulServer&) = delete;
  ForgetfulServer& operator=(const ForgetfulServer&) = delete;
  ~ForgetfulServer() { join(); }

  void join() {
    ::shutdown(fd_.get(), SHUT_RDWR);
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Behind join().
  [[nodiscard]] const std::vector<std::string>& bodies() const { return bodies_; }

 private:
  bool serve(int requests) {
    const os::UniqueFd client(::accept(fd_.get(), nullptr, nullptr));
    for (int i = 0; i < requests && client.valid(); ++i) {
      RequestReader reader({.body_bytes_max = std::size_t{1} << 30});
      std::array<char, 65536> bytes{};
      while (reader.state() < RequestReader::State::kComplete) {
        const ssize_t count = ::recv(client.get(), bytes.data(), bytes.size(), 0);
        if (count <= 0 || reader.feed({bytes.data(), static_cast<std::size_t>(count)}) == 0) {
          return false;
        }
      }
      bodies_.push_back(reader.take().body.text());
      constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
      if (i == 0 && ::send(client.get(), kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL) < 0) {
        return false;
      }
    }
    return client.valid();
  }

  os::UniqueFd fd_;
  std::uint16_t port_ = 0;
  std::vector<std::string> bodies_;
  std::thread thread_;
};

TEST_F(ClientTest, SendsTheWholeRequestAgainOnANewConnection) {
  ForgetfulServer server;
  const std::string long_body(3'000'000, 'b');
  for (const std::string& body : {std::string("a"), long_body}) {
    const Outcome outcome = ask({.host = "", .port = server.port(), .body = body});
    EXPECT_EQ(outcome.status, 200);
    EXPECT_EQ(outcome.body, "ok");
    EXPECT_FALSE(outcome.error);
  }
  server.join();
  EXPECT_TRUE((server.bodies() == std::vector<std::string>{"a", long_body, long_body}));
}

TEST_F(ClientTest, SendsNothingTwiceThatAServerMayHaveBegun) {
  ForgetfulServer server;
  EXPECT_EQ(ask({.host = "", .port = server.port(), .method = "POST", .body = "a"}).status, 200);
  const Outcome lost = ask({.host = "", .port = server.port(), .method = "POST", .body = "b"});
  EXPECT_TRUE(lost.error);
  EXPECT_EQ(lost.status, 0);
  EXPECT_EQ(lost.connections, 1);
  server.join();
  EXPECT_EQ(server.bodies(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(ClientTest, SaysWhereNobodyListens) {
  std::uint16_t port = 0;
  {
    RunningServer server({}, echo);
    port = server.port();
  }
  const Outcome outcome = ask({.host = "", .port = port});
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code(), Code::kUnavailable);
  EXPECT_NE(outcome.error->message().find("127.0.0.1:" + std::to_string(port)), std::string::npos);
  EXPECT_EQ(outcome.connections, 0);
  EXPECT_EQ(outcome.ends, 1);
}

TEST_F(ClientTest, GivesUpAfterTheTotalTimeout) {
  std::shared_ptr<Exchange> held;
  RunningServer server(
      {}, [&](const Request&, const std::shared_ptr<Exchange>& exchange) { held = exchange; });
  const Outcome outcome =
      ask({.host = "", .port = server.port(), .total_timeout = milliseconds(50)});
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code(), Code::kDeadlineExceeded);
  EXPECT_NE(outcome.error->message().find("0.05 s"), std::string::npos);
  server.call([&] { held.reset(); });
}

TEST_F(ClientTest, TellsACutStreamFromAnEndedOne) {
  RunningServer server({}, [](const Request&, const std::shared_ptr<Exchange>& exchange) {
    exchange->start_stream(200, {});
    exchange->write("half");
  });
  const Outcome outcome = ask({.host = "", .port = server.port()});
  EXPECT_EQ(outcome.status, 200);
  EXPECT_EQ(outcome.body, "half");
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code(), Code::kDataLoss);
}

TEST_F(ClientTest, CancelClosesTheConnectionAndEndsOnce) {
  std::shared_ptr<Exchange> held;
  bool gone = false;
  RunningServer server({}, [&](const Request&, const std::shared_ptr<Exchange>& exchange) {
    held = exchange;
    exchange->on_close([&] { gone = true; });
  });
  Outcome outcome;
  const auto call = send({.host = "", .port = server.port()}, &outcome);
  const auto timer = loop_.call_every(milliseconds(1), [&] {
    if (server.call([&] { return held != nullptr; })) {
      call->cancel();
    }
  });
  run();
  EXPECT_EQ(outcome.ends, 1);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code(), Code::kCancelled);
  EXPECT_TRUE(server.eventually([&] { return gone; }));
  server.call([&] { held.reset(); });
}

TEST_F(ClientTest, ACallDroppedFromItsOwnCallbackIsSilent) {
  RunningServer server({}, echo);
  std::unique_ptr<Client::Call> call;
  int ends = 0;
  std::string seen;
  call = client_->send({.host = "127.0.0.1", .port = server.port()},
                       {.on_head = {},
                        .on_data =
                            [&, text = std::string(100, 'x')](std::string_view bytes) {
                              call.reset();
                              seen = std::string(bytes) + text;  // what it captured still lives
                              loop_.stop();
                            },
                        .on_end = [&](const Status&) { ++ends; }});
  run();
  EXPECT_EQ(ends, 0);
  EXPECT_EQ(seen, "GET / " + std::string(100, 'x'));
}

TEST_F(ClientTest, ReadsAnAnswerThatComesBeforeTheBodyIsSent) {
  ServerOptions options;
  options.limits.body_bytes_max = 10;
  RunningServer server(options, echo);
  const Outcome outcome = ask(
      {.host = "", .port = server.port(), .method = "POST", .body = std::string(8'000'000, 'a')});
  EXPECT_EQ(outcome.status, 413);
  EXPECT_FALSE(outcome.error);
}

}  // namespace
}  // namespace phalanx::http
