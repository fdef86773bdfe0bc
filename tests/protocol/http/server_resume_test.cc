// SPDX-License-Identifier: Apache-2.0
// Connections that one server leaves at any moment and another one goes on with. A journal that
// writes down every state stands for the memory that outlives a process; each state, with each
// count that the kernel could have then, is gone on with by a new server on a new connection, and
// the two halves of what clients read must be what one server says.
#include <poll.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/http/sse.h"

#include "http_harness.h"

namespace phalanx::http {
namespace {

constexpr int kEvents = 6;

// One published state.
struct Moment {
  ConnectionState state;
  std::uint64_t sent = 0;      // at least
  std::uint64_t rendered = 0;  // and at most
  std::uint64_t received = 0;  // at least
};

// All that a connection's journal ever held, from the beginning of the connection.
struct Recorded {
  std::string received;
  std::string rendered;
  std::vector<Moment> moments;
  bool closed = false;
};

class RecordingJournal final : public Journal {
 public:
  explicit RecordingJournal(std::shared_ptr<Recorded> out) : out_(std::move(out)) {}
  RecordingJournal(std::shared_ptr<Recorded> out, const Resumption& left, std::uint64_t sent)
      : out_(std::move(out)) {
    out_->received.resize(left.state.request_begin, '?');
    out_->received += left.received;
    out_->rendered.resize(sent, '?');
    out_->rendered += left.to_send;
    publish(left.state, sent);
  }
  RecordingJournal(const RecordingJournal&) = delete;
  RecordingJournal& operator=(const RecordingJournal&) = delete;
  ~RecordingJournal() override { out_->closed = true; }

  std::span<char> room() override { return room_; }
  void received(std::size_t bytes) override { out_->received.append(room_.data(), bytes); }
  void append(std::string_view bytes, std::uint64_t sent) override {
    EXPECT_LE(sent, out_->rendered.size());
    out_->rendered.append(bytes);
  }
  void publish(const ConnectionState& state, std::uint64_t sent) final {
    EXPECT_TRUE(out_->moments.empty() || sent <= out_->moments.back().rendered)
        << "bytes were sent before they were published";
    out_->moments.push_back({state, sent, out_->rendered.size(), out_->received.size()});
  }
  [[nodiscard]] bool lost() const override { return false; }

 private:
  std::shared_ptr<Recorded> out_;
  std::array<char, 64> room_{};  // small: a request comes in many pieces
};

// Without what differs from life to life in an answer that nobody has seen anything of: its date,
// its drawn id, its salt.
std::string comparable(const std::string& text) {
  static const std::regex differs("date: [^\r]*|req-[0-9a-f]+|[12]00000[12]");
  return std::regex_replace(text, differs, "*");
}

void expect_one_salt_an_answer(const std::string& text) {
  for (std::size_t at = 0; (at = text.find("data: begin", at)) != std::string::npos; ++at) {
    const std::string answer = text.substr(at, text.find("data: begin", at + 1) - at);
    EXPECT_TRUE(answer.find("data: 1000001.") == std::string::npos ||
                answer.find("data: 2000002.") == std::string::npos)
        << answer;
  }
}

// Answers in one piece, or as a stream of events that are noted one by one. Each life of a server
// would choose another salt.
class Teller {
 public:
  explicit Teller(std::uint64_t salt) : salt_(salt) {}

  void answer(os::EventLoop& loop,
              const Request& request,
              const std::shared_ptr<Exchange>& exchange) const {
    HandlerNotes notes{salt_, 0, 0, 0};
    bool streaming = false;
    if (const Resumed* const resumed = exchange->resumed()) {
      notes = resumed->notes;
      streaming = resumed->streaming;
    }
    exchange->note(notes);
    if (request.path == "/stream") {
      if (!streaming) {
        exchange->start_stream(200, sse_headers());
        exchange->write(sse_event("begin"));
      }
      tell(loop, exchange, notes);
    } else {
      const std::string text = "whole " + std::to_string(notes[0]) + request.body.text();
      loop.post([exchange, text] { exchange->respond(text_response(200, text)); });
    }
  }

 private:
  static void tell(os::EventLoop& loop,
                   const std::shared_ptr<Exchange>& exchange,
                   HandlerNotes notes) {
    if (notes[1] == kEvents) {
      exchange->finish();
      return;
    }
    loop.post([&loop, exchange, notes]() mutable {
      ++notes[1];
      exchange->note(notes);
      exchange->write(sse_event(std::to_string(notes[0]) + "." + std::to_string(notes[1])));
      tell(loop, exchange, notes);
    });
  }

  std::uint64_t salt_;
};

struct Left {
  Moment moment;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::shared_ptr<Recorded> of;
};

// One server that says what is left to be said to a client that sends the rest of `input`.
class Life {
 public:
  explicit Life(std::uint64_t salt, ServerOptions options = {}) {
    options.format_stream_failure = [](const std::string& message) {
      return sse_event("failed: " + message);
    };
    server_ = std::make_unique<RunningServer>(
        std::move(options),
        [this, salt](const Request& request, const std::shared_ptr<Exchange>& exchange) {
          Teller(salt).answer(server_->loop(), request, exchange);
        });
  }

  std::string talk(const std::string& input, const Left* left, std::string failure = "") {
    recorded_ = std::make_shared<Recorded>();
    const auto before = left != nullptr ? std::optional(*left) : std::nullopt;
    server_->call([&] {
      server_->acceptor().prepare([recorded = recorded_, left = before, failure](
                                      ConnectionInfo& info) {
        info.failure = failure;
        if (left) {
          info.received = left->received;
          info.sent = left->sent;
          info.resumption = resumption_of(*left);
          info.journal = std::make_unique<RecordingJournal>(recorded, *info.resumption, left->sent);
        } else {
          info.journal = std::make_unique<RecordingJournal>(recorded);
        }
      });
    });
    RawClient client(server_->port());
    client.send(std::string_view(input).substr(left == nullptr ? 0 : left->received));
    return client.read_until("\x01 never said");
  }

  std::uint64_t requests_refused() {
    return server_->call([this] { return server_->server().counters().requests_refused; });
  }

  // Of the last talk, once its connection has ended.
  std::shared_ptr<Recorded> recorded() {
    EXPECT_TRUE(server_->eventually([this] { return recorded_->closed; }));
    return recorded_;
  }

 private:
  static Resumption resumption_of(const Left& left) {
    Resumption out;
    out.state = left.moment.state;
    if (needs_received(out.state)) {
      out.received = left.of->received.substr(left.moment.state.request_begin,
                                              left.received - left.moment.state.request_begin);
    }
    out.to_send = left.of->rendered.substr(left.sent, left.moment.rendered - left.sent);
    return out;
  }

  std::unique_ptr<RunningServer> server_;
  std::shared_ptr<Recorded> recorded_;
};

// What the kernel's count may be while the state of number `i` is the last one.
std::vector<Left> all_left_at(const std::shared_ptr<Recorded>& of,
                              std::size_t i,
                              std::size_t input_bytes) {
  const Moment& moment = of->moments[i];
  std::uint64_t received_most =
      i + 1 < of->moments.size() ? of->moments[i + 1].received : of->received.size();
  if (!needs_received(moment.state)) {
    received_most = input_bytes;  // it is read and thrown away
  }
  std::vector<Left> result;
  for (const std::uint64_t sent :
       {moment.sent, (moment.sent + moment.rendered) / 2, moment.rendered}) {
    for (const std::uint64_t received : {moment.received, received_most}) {
      result.push_back({moment, sent, received, of});
    }
  }
  return result;
}

const std::string kLast = get("/last", "Connection: close\r\n");

std::vector<std::string> inputs() {
  return {
      kLast,
      get("/stream") + kLast,
      get("/stream") + kLast + std::string(100, '?'),
      get("/stream") + post("/body", std::string(200, 'b')) + get("/stream") + kLast,
      "HEAD /whole HTTP/1.1\r\nHost: localhost\r\n\r\n" + kLast,
      "GET /stream HTTP/1.0\r\nHost: localhost\r\n\r\n",
      get("/stream", "X-Request-Id: mine\r\n") + "BROKEN\r\n\r\n",
      "POST /body HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: "
      "100\r\n\r\n" +
          std::string(100, 'e') + kLast,
      "POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n40\r\n" +
          std::string(64, 'c') + "\r\n0\r\n\r\n" + kLast,
  };
}

TEST(Resume, AtEveryStateAndEveryCountTheBytesGoOn) {
  Life first(1'000'001);
  Life second(2'000'002);
  std::size_t tried = 0;
  for (const std::string& input : inputs()) {
    const std::string whole = first.talk(input, nullptr);
    const auto recorded = first.recorded();
    ASSERT_EQ(recorded->rendered, whole);
    ASSERT_FALSE(recorded->moments.empty());
    for (std::size_t i = 0; i < recorded->moments.size(); ++i) {
      for (const Left& left : all_left_at(recorded, i, input.size())) {
        const std::string rest = second.talk(input, &left);
        const std::string both = recorded->rendered.substr(0, left.sent) + rest;
        expect_one_salt_an_answer(both);
        ASSERT_EQ(comparable(both), comparable(whole))
            << "input " << input.substr(0, 60) << ", state " << i << ", stage "
            << static_cast<int>(left.moment.state.stage) << ", sent " << left.sent << " of "
            << left.moment.rendered << ", received " << left.received;
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 200U);
}

TEST(Resume, ManyLivesOneAfterTheOther) {
  std::mt19937_64 random(7);
  const std::string input = inputs()[2];
  Life lives[] = {Life(1'000'001), Life(2'000'002)};
  const std::string whole = lives[0].talk(input, nullptr);
  for (int trial = 0; trial < 60; ++trial) {
    static_cast<void>(lives[0].talk(input, nullptr));
    std::shared_ptr<Recorded> recorded = lives[0].recorded();
    std::string said;
    std::uint64_t said_to = 0;
    for (int life = 0; life < 5 && !recorded->moments.empty(); ++life) {
      const std::size_t i = random() % recorded->moments.size();
      const std::vector<Left> choices = all_left_at(recorded, i, input.size());
      const Left left = choices[random() % choices.size()];
      said += recorded->rendered.substr(said_to, left.sent - said_to);
      said_to = left.sent;
      const std::string rest = lives[life % 2].talk(input, &left);
      recorded = lives[life % 2].recorded();
      expect_one_salt_an_answer(said + rest);
      ASSERT_EQ(comparable(said + rest), comparable(whole))
          << "trial " << trial << ", life " << life;
    }
  }
}

TEST(Resume, AClientGetsNoMoreTimeForARequest) {
  Life first(1);
  Life second(2);
  const std::string last =
      get("/last", "Connection: close\r\nX-Long: " + std::string(200, 'x') + "\r\n");
  std::size_t tried[2] = {};
  std::size_t with_bytes_to_send = 0;
  for (const std::string& input : {post("/body", std::string(200, 'b')) + last, inputs()[7]}) {
    static_cast<void>(first.talk(input, nullptr));
    const auto recorded = first.recorded();
    for (const Moment& moment : recorded->moments) {
      if (moment.state.deadline_ms == 0) {
        continue;
      }
      Left left{moment, moment.sent, moment.received, recorded};
      const auto now =
          static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                         steady_clock().now().time_since_epoch())
                                         .count());
      EXPECT_LT(left.moment.state.deadline_ms - now, 61'000U);
      left.moment.state.deadline_ms = now + 50;
      const std::string answer = second.talk(input.substr(0, left.received), &left);
      EXPECT_NE(answer.find("HTTP/1.1 408 "), std::string::npos) << answer;
      ++tried[left.moment.state.in_body ? 1 : 0];
      with_bytes_to_send += moment.sent < moment.rendered ? 1 : 0;
    }
  }
  EXPECT_GT(tried[0], 0U);
  EXPECT_GT(tried[1], 0U);
  EXPECT_GT(with_bytes_to_send, 0U);
}

std::uint32_t in_milliseconds(Duration time) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<milliseconds>((steady_clock().now() + time).time_since_epoch())
          .count());
}

TEST(Resume, ItIsKeptUntilWhenAClientMustTakeSome) {
  RunningServer server({}, [](const Request&, const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(text_response(200, std::string(std::size_t{16} << 20, 'x')));
  });
  const auto recorded = std::make_shared<Recorded>();
  server.call([&] {
    server.acceptor().prepare(
        [&](ConnectionInfo& info) { info.journal = std::make_unique<RecordingJournal>(recorded); });
  });
  RawClient client(server.port(), 65536);
  client.send(get("/", "Connection: close\r\n"));
  ASSERT_TRUE(server.eventually([&] {
    return !recorded->moments.empty() && recorded->moments.back().state.deadline_ms != 0;
  }));
  const Moment moment = server.call([&] { return recorded->moments.back(); });
  EXPECT_EQ(moment.state.stage, Stage::kComplete);
  EXPECT_GT(moment.sent, 0U);
  EXPECT_LT(moment.sent, moment.rendered);
  EXPECT_LE(moment.state.deadline_ms - in_milliseconds(seconds(0)), 30'000U);
  EXPECT_TRUE(client.read_response());
  ASSERT_TRUE(server.eventually([&] { return recorded->moments.back().sent == moment.rendered; }));
  EXPECT_EQ(server.call([&] { return recorded->moments.back().state.deadline_ms; }), 0U)
      << "it has taken all of it";
}

// The last bytes of an answer, which a server goes on with on a socket that is full.
class FullSocket : public testing::Test {
 protected:
  static constexpr std::string_view kRest = "the rest";

  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client_.reset(ends[0]);
    server_end_.reset(ends[1]);
    const std::string filler(4096, '-');
    for (ssize_t count = 0; count >= 0; full_ += static_cast<std::size_t>(count)) {
      count = ::send(ends[1], filler.data(), filler.size(), MSG_DONTWAIT);
      if (count < 0) {
        break;
      }
    }
  }

  void go_on(std::uint32_t deadline_ms, Duration write_timeout = seconds(30)) {
    ServerOptions options;
    options.write_timeout = write_timeout;
    server_ = std::make_unique<RunningServer>(std::move(options), echo);
    server_->call([&] {
      ConnectionInfo info;
      info.id = 1;
      info.sent = full_;
      info.resumption = Resumption{
          .state = {.stage = Stage::kComplete, .keep_alive = false, .deadline_ms = deadline_ms},
          .received = "",
          .to_send = std::string(kRest)};
      info.journal = std::make_unique<RecordingJournal>(recorded_, *info.resumption, full_);
      server_->server().adopt(std::move(server_end_), std::move(info));
    });
  }

  [[nodiscard]] std::uint64_t too_slow() const {
    return server_->server().counters().clients_too_slow;
  }

  os::UniqueFd client_;
  os::UniqueFd server_end_;
  std::size_t full_ = 0;  // bytes that nobody has read
  std::shared_ptr<Recorded> recorded_ = std::make_shared<Recorded>();
  std::unique_ptr<RunningServer> server_;
};

TEST_F(FullSocket, TheClientHasWhatWasLeftOfItsTime) {
  const std::uint32_t deadline = in_milliseconds(seconds(20));
  go_on(deadline);
  ASSERT_TRUE(server_->eventually([&] { return recorded_->moments.size() == 2; }));
  const std::uint32_t kept =
      server_->call([&] { return recorded_->moments.back().state.deadline_ms; });
  EXPECT_NEAR(kept, deadline, 2) << "the one behind this one has it, too";
}

// Less than would have woken the one before, who waited as well: its client has taken next to
// nothing.
TEST_F(FullSocket, ALittleRoomIsNoMoreTime) {
  std::string taken(4096, '?');
  ASSERT_EQ(::recv(client_.get(), taken.data(), taken.size(), MSG_WAITALL),
            static_cast<ssize_t>(taken.size()));
  pollfd writable{.fd = server_end_.get(), .events = POLLOUT, .revents = 0};
  ASSERT_EQ(::poll(&writable, 1, 0), 0);
  const std::uint32_t deadline = in_milliseconds(seconds(20));
  go_on(deadline);
  ASSERT_TRUE(server_->eventually([&] { return recorded_->moments.size() >= 2; }));
  const std::uint32_t kept =
      server_->call([&] { return recorded_->moments.back().state.deadline_ms; });
  EXPECT_NEAR(kept, deadline, 2);
}

TEST_F(FullSocket, BehindTheDeadlineItIsTriedOnceMoreAndThenDropped) {
  const SteadyTime begin = steady_clock().now();
  go_on(in_milliseconds(-seconds(5)));
  EXPECT_TRUE(server_->eventually([&] { return too_slow() == 1; }));
  EXPECT_GE(steady_clock().now() - begin, seconds(1)) << "nobody could send to it before";
}

TEST_F(FullSocket, WhoTakesSomeThenIsServed) {
  go_on(in_milliseconds(-seconds(5)));
  std::string taken(full_ + kRest.size(), '?');
  ASSERT_EQ(::recv(client_.get(), taken.data(), taken.size(), MSG_WAITALL),
            static_cast<ssize_t>(taken.size()));
  EXPECT_TRUE(taken.ends_with(kRest));
  EXPECT_EQ(server_->call([&] { return too_slow(); }), 0U);
}

TEST_F(FullSocket, NobodyGetsMoreTimeThanThereIs) {
  go_on(in_milliseconds(std::chrono::hours(24)), milliseconds(40));
  EXPECT_TRUE(server_->eventually([&] { return too_slow() == 1; }));
}

TEST(Resume, WhatIsNotTriedAgainEndsWithAnError) {
  Life first(1);
  Life second(2);
  const std::string input = get("/stream") + kLast;
  const std::string whole = first.talk(input, nullptr);
  const auto recorded = first.recorded();
  for (std::size_t i = 0; i < recorded->moments.size(); ++i) {
    const Left left = all_left_at(recorded, i, input.size()).front();
    const std::string rest = second.talk(input, &left, "no more");
    switch (left.moment.state.stage) {
      case Stage::kReading:
      case Stage::kAwaited:
        EXPECT_TRUE(rest.starts_with("HTTP/1.1 500 ")) << rest;
        EXPECT_NE(rest.find("no more"), std::string::npos) << rest;
        break;
      case Stage::kStreaming:
        EXPECT_TRUE(rest.ends_with("data: failed: no more\n\n\r\n0\r\n\r\n")) << rest;
        break;
      case Stage::kComplete:
        EXPECT_EQ(rest.find("no more"), std::string::npos) << rest;
        break;
    }
  }
}

TEST(Resume, NothingThatIsReadAgainIsNeededToFailAHeadRequest) {
  Life first(1);
  Life second(2);
  const std::string fields = " /whole HTTP/1.1\r\nHost: localhost\r\nX-Long: ";
  for (const std::string method : {"HEAD", "GET"}) {
    const std::string input =
        "\r\n" + method + fields + std::string(150, 'x') + "\r\nConnection: close\r\n\r\n";
    static_cast<void>(first.talk(input, nullptr));
    const auto recorded = first.recorded();
    std::size_t tried = 0;
    for (const Moment& moment : recorded->moments) {
      if (moment.state.stage != Stage::kReading || moment.received < 60) {
        continue;
      }
      const Left left{moment, moment.sent, moment.received, recorded};
      const std::string answer = second.talk(input, &left, "no more");
      EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 ")) << answer;
      EXPECT_EQ(answer.ends_with("\r\n\r\n"), method == "HEAD") << answer;
      ++tried;
    }
    EXPECT_GT(tried, 0U);
  }
}

// What one server has read and another one reads differently is refused where nothing was said.
class OtherReader : public testing::Test {
 protected:
  // The moments at which the first answer to `input` is awaited.
  std::vector<Left> awaited(const std::string& input) {
    static_cast<void>(first_.talk(input, nullptr));
    const auto recorded = first_.recorded();
    std::vector<Left> found;
    for (const Moment& moment : recorded->moments) {
      if (moment.state.stage == Stage::kAwaited && moment.state.ordinal == 1) {
        found.push_back({moment, moment.sent, moment.received, recorded});
      }
    }
    EXPECT_FALSE(found.empty());
    return found;
  }

  Life first_{1};
};

TEST_F(OtherReader, RefusesWhatItWouldHaveRefused) {
  ServerOptions options;
  options.limits.body_bytes_max = 50;
  Life stricter(2, std::move(options));
  const std::string input = post("/body", std::string(200, 'b')) + kLast;
  for (const Left& left : awaited(input)) {
    for (const char* const failure : {"", "no more"}) {
      const std::string answer = stricter.talk(input, &left, failure);
      EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer;
      EXPECT_NE(answer.find("the body is larger than 50 bytes"), std::string::npos) << answer;
      EXPECT_NE(answer.find("connection: close"), std::string::npos) << answer;
    }
  }
  EXPECT_GT(stricter.requests_refused(), 0U);
}

TEST_F(OtherReader, FailsWhatEndsElsewhere) {
  Life second(2);
  const std::string input = post("/body", std::string(200, 'b')) + kLast;
  for (Left left : awaited(input)) {
    for (const std::int64_t bytes : {-1, 1}) {
      Left other = left;
      other.moment.state.request_end += static_cast<std::uint64_t>(bytes);
      const std::string answer = second.talk(input, &other);
      EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 ")) << answer;
      EXPECT_NE(answer.find("otherwise"), std::string::npos) << answer;
    }
  }
}

TEST_F(OtherReader, EndsAnAnswerThatHasBegun) {
  ServerOptions options;
  options.limits.header_bytes_max = 20;
  Life stricter(2, std::move(options));
  const std::string input = get("/stream") + kLast;
  static_cast<void>(first_.talk(input, nullptr));
  const auto recorded = first_.recorded();
  for (const Moment& moment : recorded->moments) {
    if (moment.state.stage == Stage::kStreaming) {
      const Left left{moment, moment.rendered, moment.received, recorded};
      EXPECT_EQ(stricter.talk(input, &left), "");
    }
  }
}

TEST(Resume, WhatIsNotTriedAgainBehindAnAnswerThatIsSent) {
  Life first(1);
  Life second(2);
  const std::string input = get("/stream") + kLast;
  static_cast<void>(first.talk(input, nullptr));
  const auto recorded = first.recorded();
  std::size_t tried = 0;
  for (const Moment& moment : recorded->moments) {
    if (moment.state.stage != Stage::kComplete || !moment.state.keep_alive) {
      continue;
    }
    const std::size_t end_of_first = moment.state.request_end;
    const Left at_second{moment, moment.rendered, input.size(), recorded};
    const std::string refusal = second.talk(input, &at_second, "no more");
    EXPECT_TRUE(refusal.starts_with("HTTP/1.1 500 ")) << refusal;
    EXPECT_NE(refusal.find("no more"), std::string::npos) << refusal;
    // Nothing of the second request was read, or the first answer is what was being sent.
    const Left at_end{moment, moment.rendered, end_of_first, recorded};
    EXPECT_EQ(second.talk(input, &at_end, "no more"), "");
    const Left in_first{moment, moment.rendered - 1, input.size(), recorded};
    EXPECT_EQ(second.talk(input, &in_first, "no more"),
              recorded->rendered.substr(moment.rendered - 1, 1));
    ++tried;
  }
  EXPECT_GT(tried, 0U);
}

}  // namespace
}  // namespace phalanx::http
