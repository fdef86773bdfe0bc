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
        {.on_head = [outcome](int status, const Headers&) { outcome->status = status; },
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
    EXPECT_EQ(outcome.ends, 1);
    EXPECT_FALSE(outcome.error);
  }
  EXPECT_EQ(server.accepted(), 1U);
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
