// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/server.h"

#include <vector>

#include <gtest/gtest.h>

#include "http_harness.h"

namespace phalanx::http {
namespace {

TEST(Server, AnswersSeveralRequestsOnOneConnection) {
  RunningServer server({}, echo);
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.send(post("/a", std::to_string(i)));
    const auto response = client.read_response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "POST /a " + std::to_string(i));
    EXPECT_EQ(response->headers.find("connection"), nullptr);
    EXPECT_NE(response->headers.find("date"), nullptr);
  }
  EXPECT_EQ(server.accepted(), 1U);
  EXPECT_EQ(server.counters().requests, 3U);
}

TEST(Server, AnswersPipelinedRequestsInOrderOneAtATime) {
  int at_work = 0;
  int at_work_max = 0;
  std::vector<std::unique_ptr<os::EventLoop::Handle>> timers;
  os::EventLoop* loop = nullptr;
  RunningServer server(
      {},
      [&](const Request& request, const std::shared_ptr<Exchange>& exchange) {
        at_work_max = std::max(at_work_max, ++at_work);
        timers.push_back(loop->call_after(milliseconds(2), [&, exchange, path = request.path] {
          --at_work;
          exchange->respond(text_response(200, path));
        }));
      },
      [&](os::EventLoop& the_loop) { loop = &the_loop; });
  RawClient client(server.port());
  std::string requests;
  for (int i = 0; i < 20; ++i) {
    requests += get("/" + std::to_string(i));
  }
  client.send(requests);
  for (int i = 0; i < 20; ++i) {
    const auto response = client.read_response();
    ASSERT_TRUE(response) << i;
    EXPECT_EQ(response->body, "/" + std::to_string(i));
  }
  EXPECT_EQ(server.call([&] { return at_work_max; }), 1);
  server.call([&] { timers.clear(); });
}

TEST(Server, AnswersMorePipelinedRequestsThanItBuffers) {
  ServerOptions options;
  options.limits.header_bytes_max = 1000;
  RunningServer server(options, echo);
  RawClient client(server.port());
  constexpr int kRequests = 5000;
  std::string requests;
  for (int i = 0; i < kRequests; ++i) {
    requests += get("/" + std::to_string(i));
  }
  std::thread sender([&] { client.send(requests); });
  int answered = 0;
  while (answered < kRequests && client.read_response()) {
    ++answered;
  }
  sender.join();
  EXPECT_EQ(answered, kRequests);
}

TEST(Server, ClosesWhenTheClientAsksForIt) {
  RunningServer server({}, echo);
  RawClient client(server.port());
  client.send(get("/", "Connection: close\r\n"));
  const auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(*response->headers.find("connection"), "close");
  EXPECT_TRUE(client.closed_by_server());
}

TEST(Server, HeadHasTheLengthAndNoBody) {
  RunningServer server({}, echo);
  RawClient client(server.port());
  client.send("HEAD /x HTTP/1.1\r\nHost: localhost\r\n\r\n" + get("/y"));
  const auto head = client.read_response(true);
  ASSERT_TRUE(head);
  EXPECT_EQ(*head->headers.find("content-length"), "8");
  const auto next = client.read_response();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->body, "GET /y ");
}

TEST(Server, ARefusedHeadHasNoBodyEither) {
  RunningServer server({}, echo);
  for (const char* target : {"/%zz", "/%00", "nowhere"}) {
    RawClient client(server.port());
    client.send("HEAD " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const auto head = client.read_response(true);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->status, 400);
    EXPECT_TRUE(client.closed_by_server()) << target;
  }
}

TEST(Server, ReadsChunkedBodies) {
  RunningServer server({}, echo);
  RawClient client(server.port());
  client.send(
      "POST /c HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  const auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "POST /c abcde");
}

// Whoever dies of a request is to be found by the mark, also behind a part of the work for it.
TEST(Server, IsMarkedAsAtWorkForAConnectionUntilAllOfItIsDone) {
  std::vector<std::uint64_t> marks;
  ServerOptions options;
  options.mark = [&](std::uint64_t id) { marks.push_back(id); };
  RunningServer server(std::move(options), echo);
  RawClient client(server.port());
  client.send(
      "POST /c HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  client.read_until("100 Continue\r\n\r\n");
  client.send("ok");
  ASSERT_TRUE(client.read_response());
  server.call([&] {
    ASSERT_FALSE(marks.empty());
    for (std::size_t i = 1; i < marks.size(); ++i) {
      EXPECT_FALSE(marks[i - 1] == 0 && marks[i] == 0) << "work went on with nobody marked";
    }
    EXPECT_EQ(marks.back(), 0U);
  });
}

TEST(Server, AsksForABodyThatTheClientHoldsBack) {
  RunningServer server({}, echo);
  RawClient client(server.port());
  client.send(
      "POST /c HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  const auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "POST /c ok");
}

TEST(Server, EchoesAUsableRequestIdAndDrawsOneOtherwise) {
  RunningServer server({}, [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(text_response(200, request.id));
  });
  RawClient client(server.port());
  client.send(get("/", "X-Request-Id: tour-1\r\n"));
  auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "tour-1");
  EXPECT_EQ(*response->headers.find("x-request-id"), "tour-1");
  client.send(get("/", "X-Request-Id: has space\r\n"));
  response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body.text().rfind("req-", 0), 0U);
  EXPECT_EQ(*response->headers.find("x-request-id"), response->body.text());
}

TEST(Server, AFieldCannotSmuggleAnother) {
  RunningServer server({}, [](const Request&, const std::shared_ptr<Exchange>& exchange) {
    Response response = text_response(200, "x");
    response.headers.add("x-note", "a\r\nset-cookie: b");
    exchange->respond(std::move(response));
  });
  RawClient client(server.port());
  client.send(get("/"));
  const auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->headers.find("set-cookie"), nullptr);
}

TEST(Server, AnswersWhatAHandlerDropped) {
  RunningServer server({}, [](const Request&, const std::shared_ptr<Exchange>&) {});
  RawClient client(server.port());
  client.send(get("/"));
  const auto response = client.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 500);
}

TEST(Server, NamesTheConnectionOfARequestAndWhichOneItIs) {
  RunningServer server({}, [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(text_response(200,
                                    std::to_string(request.connection) + " " +
                                        std::to_string(request.ordinal) + " " + request.peer));
  });
  for (const char* id : {"1", "2"}) {
    RawClient client(server.port());
    for (const char* ordinal : {"1", "2", "3"}) {
      client.send(get("/"));
      const auto response = client.read_response();
      ASSERT_TRUE(response);
      EXPECT_EQ(response->body,
                std::string(id) + " " + ordinal + " 127.0.0.1:" + std::to_string(client.port()));
    }
  }
}

TEST(Server, RefusesAnAllowedOriginThatIsNone) {
  os::EventLoop loop;
  ServerOptions options;
  options.allowed_origins = {"no origin"};
  const auto server = Server::create(loop, options, echo);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code(), Code::kInvalidArgument);
}

TEST(Server, ClosesWhatIsIdleAndFinishesWhatIsUnderWay) {
  std::shared_ptr<Exchange> held;
  RunningServer server({}, [&](const Request& request, const std::shared_ptr<Exchange>& exchange) {
    if (request.path == "/hold") {
      held = exchange;
    } else {
      echo(request, exchange);
    }
  });
  RawClient idle(server.port());
  idle.send(get("/"));
  ASSERT_TRUE(idle.read_response());
  RawClient busy(server.port());
  busy.send(get("/hold"));
  ASSERT_TRUE(server.eventually([&] { return held != nullptr; }));
  server.call([&] { server.server().close_idle(); });
  EXPECT_TRUE(idle.closed_by_server());
  RawClient late(server.port());
  EXPECT_TRUE(late.closed_by_server());
  server.call([&] { std::exchange(held, nullptr)->respond(text_response(200, "late")); });
  const auto response = busy.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "late");
  EXPECT_EQ(*response->headers.find("connection"), "close");
  busy.close();
  EXPECT_TRUE(server.eventually([&] { return server.acceptor().held() == 0; }));
}

// Ends the answers of `server` at once. `before` ends some in its own way.
void close_now(
    RunningServer& server, const std::function<void()>& before = [] {}) {
  server.call([&] {
    server.server().close_idle();
    before();
    server.server().end_answers();
  });
  EXPECT_TRUE(server.eventually([&] { return server.acceptor().held() == 0; }));
}

TEST(Server, AnAnswerThatHasNotBegunAtTheEndIs503) {
  std::shared_ptr<Exchange> held;
  bool gone = false;
  RunningServer server({}, [&](const Request&, const std::shared_ptr<Exchange>& exchange) {
    held = exchange;
    exchange->on_close([&] { gone = true; });
  });
  RawClient client(server.port());
  client.send(get("/"));
  ASSERT_TRUE(server.eventually([&] { return held != nullptr; }));
  std::thread reader([&] {
    const auto response = client.read_response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 503);
    EXPECT_NE(response->headers.find("retry-after"), nullptr);
    EXPECT_TRUE(client.closed_by_server());
    client.close();
  });
  close_now(server);
  reader.join();
  EXPECT_TRUE(server.eventually([&] { return gone; }));
  server.call([&] { held.reset(); });
}

TEST(Server, ARequestThatIsNotCompleteAtTheEndIs503) {
  RunningServer server({}, echo);
  RawClient client(server.port());
  client.send(
      "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n");
  client.read_until("\r\n\r\n");
  client.send("abc");
  std::thread reader([&] {
    const auto response = client.read_response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 503);
    client.close();
  });
  close_now(server);
  reader.join();
}

TEST(Server, AStreamIsEndedByItsHandlerBeforeTheEnd) {
  std::shared_ptr<Exchange> held;
  RunningServer server({}, [&](const Request&, const std::shared_ptr<Exchange>& exchange) {
    held = exchange;
    exchange->start_stream(200, {});
    exchange->write("begun ");
  });
  RawClient client(server.port());
  client.send(get("/"));
  ASSERT_TRUE(server.eventually([&] { return held != nullptr; }));
  std::thread reader([&] {
    const auto response = client.read_response();
    ASSERT_TRUE(response) << "the stream was cut";
    EXPECT_EQ(response->body, "begun ended");
    client.close();
  });
  close_now(server, [&] {
    held->write("ended");
    held->finish();
    held.reset();
  });
  reader.join();
}

TEST(Server, AStreamThatNobodyEndsIsCut) {
  std::shared_ptr<Exchange> held;
  bool gone = false;
  RunningServer server({}, [&](const Request&, const std::shared_ptr<Exchange>& exchange) {
    held = exchange;
    exchange->on_close([&] { gone = true; });
    exchange->start_stream(200, {});
  });
  RawClient client(server.port());
  client.send(get("/"));
  client.read_until("\r\n\r\n");
  close_now(server);
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_TRUE(server.eventually([&] { return gone; }));
  server.call([&] { held.reset(); });
}

TEST(Server, WhoComesBehindTheEndGivesTheOthersNoMoreTime) {
  constexpr int kLater = 4;
  std::shared_ptr<Exchange> held;
  RunningServer server({}, [&](const Request&, const std::shared_ptr<Exchange>& exchange) {
    held = exchange;
    exchange->start_stream(200, {});
  });
  RawClient client(server.port());
  client.send(get("/"));
  client.read_until("\r\n\r\n");
  server.call([&] { server.server().end_answers(); });
  const SteadyTime ended = steady_clock().now();
  std::vector<std::unique_ptr<RawClient>> later;
  std::thread others([&] {
    for (int i = 0; i < kLater; ++i) {
      std::this_thread::sleep_for(milliseconds(400));
      later.push_back(std::make_unique<RawClient>(server.port()));
    }
  });
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_LT(steady_clock().now() - ended, milliseconds(1500));
  others.join();
  const SteadyTime adopted = steady_clock().now();
  EXPECT_TRUE(later.back()->closed_by_server());
  EXPECT_GT(steady_clock().now() - adopted, milliseconds(700)) << "each has its second";
  server.call([&] { held.reset(); });
}

}  // namespace
}  // namespace phalanx::http
