// SPDX-License-Identifier: Apache-2.0
// What clients see of the end of a connection while somebody else holds its socket open.
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/os/machine.h"

#include "http_harness.h"

namespace phalanx::http {
namespace {

// A server whose sockets stay open elsewhere until the test ends, with a handler that begins a
// stream, says one word and keeps it.
class SharedSocket : public testing::Test {
 protected:
  void serve(ServerOptions options = {}) {
    server_ = std::make_unique<RunningServer>(
        std::move(options), [this](const Request&, const std::shared_ptr<Exchange>& exchange) {
          held_ = exchange;
          exchange->start_stream(200, {});
          exchange->write("hello");
        });
    server_->call([&] { server_->acceptor().keep_sockets(); });
  }

  void TearDown() override {
    server_->call([&] { held_.reset(); });
  }

  // A client in the middle of its answer.
  std::unique_ptr<RawClient> begin_stream(int receive_buffer_bytes = 0) {
    auto client = std::make_unique<RawClient>(server_->port(), receive_buffer_bytes);
    client->send(get("/"));
    EXPECT_NE(client->read_until("hello\r\n"), "");
    return client;
  }

  void drop_stream() {
    server_->call([&] { held_.reset(); });
  }

  bool socket_is_still_held() {
    return server_->call(
        [&] { return server_->acceptor().held() == server_->acceptor().accepted(); });
  }

  std::unique_ptr<RunningServer> server_;
  std::shared_ptr<Exchange> held_;
};

TEST_F(SharedSocket, AClientSeesTheEndBehindItsLastAnswer) {
  serve();
  RawClient client(server_->port());
  client.send(get("/", "Connection: close\r\n"));
  client.read_until("hello\r\n");
  server_->call([&] { held_->finish(); });
  client.read_until("0\r\n\r\n");
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_TRUE(socket_is_still_held());
}

TEST_F(SharedSocket, AnIdleClientSeesTheEnd) {
  ServerOptions options;
  options.header_timeout = milliseconds(20);
  serve(std::move(options));
  RawClient client(server_->port());
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_TRUE(socket_is_still_held());
}

TEST_F(SharedSocket, AClientOfACutStreamSeesTheEnd) {
  serve();
  const auto client = begin_stream();
  drop_stream();
  EXPECT_TRUE(client->closed_by_server());
  EXPECT_TRUE(socket_is_still_held());
}

TEST_F(SharedSocket, ARefusedClientSeesTheEnd) {
  serve();
  server_->call([&] { server_->acceptor().refuse("no place is left"); });
  RawClient client(server_->port());
  EXPECT_TRUE(client.read_response());
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_TRUE(socket_is_still_held());
}

TEST_F(SharedSocket, ClientsOfADestroyedServerSeeTheEnd) {
  serve();
  RawClient idle(server_->port());
  const auto busy = begin_stream();
  server_->destroy();
  EXPECT_TRUE(idle.closed_by_server());
  EXPECT_TRUE(busy->closed_by_server());
  EXPECT_TRUE(socket_is_still_held());
}

TEST_F(SharedSocket, AClientThatSendsOnBehindTheEndDoesNotWait) {
  serve();
  const auto client = begin_stream();
  drop_stream();
  EXPECT_TRUE(client->closed_by_server());
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(client->send(std::string(64'000'000, 'x')));
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(5));
  EXPECT_TRUE(socket_is_still_held());
}

TEST_F(SharedSocket, AClientWhoseRequestsNobodyHasReadIsReset) {
  ServerOptions options;
  options.limits.header_bytes_max = 1000;  // what waits behind a request is read no further
  serve(std::move(options));
  const auto client = begin_stream();
  client->send(std::string(200'000, 'x'));
  drop_stream();
  EXPECT_TRUE(client->reset_by_server());
  EXPECT_TRUE(socket_is_still_held());
}

TEST_F(SharedSocket, AClientThatIsTooSlowIsReset) {
  ServerOptions options;
  options.write_timeout = milliseconds(60);
  options.stream_pending_bytes_max = std::size_t{64} << 20;
  serve(std::move(options));
  const auto client = begin_stream(4096);
  server_->call([&] { held_->write(std::string(std::size_t{16} << 20, 'x')); });
  ASSERT_TRUE(server_->eventually([&] { return server_->acceptor().closed() == 1; }));
  EXPECT_TRUE(client->reset_by_server());
  EXPECT_TRUE(socket_is_still_held());
}

TEST(Server, SaysThatAConnectionIsClosedWhenItsDescriptorIs) {
  std::vector<std::string> told;
  std::size_t descriptors = 0;
  std::shared_ptr<Exchange> held;
  ServerOptions options;
  options.on_closed = [&](std::uint64_t id) {
    told.push_back("closed " + std::to_string(id));
    descriptors = os::open_descriptors();
  };
  RunningServer server(options, [&](const Request&, const std::shared_ptr<Exchange>& exchange) {
    held = exchange;
    exchange->on_close([&] { told.emplace_back("gone"); });
    exchange->start_stream(200, {});
  });
  RawClient client(server.port());
  client.send(get("/"));
  client.read_until("\r\n\r\n");
  const std::size_t before = server.call([] { return os::open_descriptors(); });
  server.call([&] {
    held.reset();
    EXPECT_TRUE(told.empty()) << "never from inside a call";
  });
  ASSERT_TRUE(server.eventually([&] { return server.acceptor().closed() == 1; }));
  EXPECT_EQ(told, (std::vector<std::string>{"gone", "closed 1"}));
  EXPECT_EQ(descriptors, before - 1) << "of two of this socket";
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_EQ(server.call([&] { return server.acceptor().held(); }), 0U);
}

TEST(ConnectionAtRest, IsToldWithWhatHasPassed) {
  using Rest = std::pair<std::uint64_t, std::uint64_t>;  // received, sent
  std::vector<Rest> rests;                               // of the loop
  ServerOptions options;
  options.on_rest = [&](std::uint64_t, std::uint64_t received, std::uint64_t sent) {
    rests.emplace_back(received, sent);
  };
  RunningServer server(options, echo);
  RawClient client(server.port());
  const std::string request = get("/a", "X-Request-Id: r\r\n");
  client.send(request);
  const std::string answer = client.read_until("GET /a ");
  ASSERT_TRUE(server.eventually([&] { return rests.size() == 1; }));
  EXPECT_EQ(server.call([&] { return rests[0]; }), Rest(request.size(), answer.size()));

  // Two at once, the second of them half: at rest it is behind the whole of it only.
  client.send(request + request.substr(0, 10));
  EXPECT_EQ(client.read_until("GET /a "), answer);
  client.send(request.substr(10));
  EXPECT_EQ(client.read_until("GET /a "), answer);
  ASSERT_TRUE(server.eventually([&] { return rests.size() == 2; }));
  EXPECT_EQ(server.call([&] { return rests[1]; }), Rest(3 * request.size(), 3 * answer.size()));
}

TEST(ConnectionAtRest, IsLetGoOfWithoutAWordToItsClient) {
  std::vector<std::uint64_t> released;  // of the loop
  std::shared_ptr<Exchange> held;
  ServerOptions options;
  options.on_released = [&](std::uint64_t id, std::uint64_t, std::uint64_t) {
    released.push_back(id);
  };
  RunningServer server(options, [&](const Request& request, std::shared_ptr<Exchange> exchange) {
    if (request.path == "/hold") {
      held = std::move(exchange);
    } else {
      echo(request, exchange);
    }
  });
  RawClient resting(server.port());
  resting.send(get("/a"));
  ASSERT_TRUE(resting.read_response().has_value());
  RawClient busy(server.port());
  busy.send(get("/hold"));
  RawClient half(server.port());
  half.send(get("/half").substr(0, 12));
  ASSERT_TRUE(server.eventually([&] { return held != nullptr; }));
  ASSERT_TRUE(server.eventually([&] { return server.acceptor().accepted() == 3; }));
  server.call([&] { server.server().release_all(); });
  ASSERT_TRUE(server.eventually([&] { return released.size() == 1; }));
  EXPECT_EQ(server.call([&] { return released[0]; }), 1U);
  server.call([&] { held->respond(text_response(200, "at last")); });
  EXPECT_TRUE(busy.read_response().has_value());
  half.send(get("/half").substr(12));
  EXPECT_TRUE(half.read_response().has_value());
  ASSERT_TRUE(server.eventually([&] { return released.size() == 3; }));
  EXPECT_EQ(server.call([&] { return server.server().connections(); }), 0U);

  // Somebody else goes on with the duplicates.
  server.call([&] { held.reset(); });
  EXPECT_EQ(server.call([&] { return server.acceptor().held(); }), 3U);
  EXPECT_EQ(server.call([&] { return server.acceptor().closed(); }), 0U);
}

TEST(ConnectionAtRest, MayLastLongerWhereItGoesOn) {
  ServerOptions options;
  options.header_timeout = milliseconds(20);
  options.idle_timeout = seconds(30);
  RunningServer server(options, echo);
  server.call([&] { server.acceptor().go_on(true); });
  RawClient old(server.port());
  ASSERT_TRUE(server.eventually([&] { return server.acceptor().accepted() == 1; }));
  server.call([&] { server.acceptor().go_on(false); });
  RawClient first(server.port());
  RawClient second(server.port());
  EXPECT_TRUE(first.closed_by_server());
  EXPECT_TRUE(second.closed_by_server());
  old.send(get("/still"));
  EXPECT_TRUE(old.read_response().has_value());
}

TEST(ConnectionAtRest, LastsNoLongerBecauseItGoesOn) {
  ServerOptions options;
  options.header_timeout = options.idle_timeout = std::chrono::hours(1);
  RunningServer server(options, echo);
  for (const bool goes_on : {false, true}) {
    server.call([&] {
      server.acceptor().go_on(goes_on);
      server.acceptor().prepare([](ConnectionInfo& info) { info.waited = std::chrono::hours(2); });
    });
    RawClient late(server.port());
    RawClient silent(server.port());
    late.send(get("/was/under/way"));
    EXPECT_TRUE(late.read_response().has_value());
    EXPECT_TRUE(silent.closed_by_server());
    late.send(get("/again"));
    EXPECT_TRUE(late.read_response().has_value()) << "it has waited for nothing since";
  }
}

}  // namespace
}  // namespace phalanx::http
