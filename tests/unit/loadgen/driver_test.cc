// SPDX-License-Identifier: Apache-2.0
#include "phalanx/loadgen/driver.h"

#include <gtest/gtest.h>

#include "phalanx/http/sse.h"

#include "support/manual_clock.h"

namespace phalanx::loadgen {
namespace {

using std::chrono::milliseconds;

// Answers every request as the test says, from the loop.
class FakeClient final : public http::Client {
 public:
  using Answer = std::function<void(const http::ClientRequest&, const http::ClientCallbacks&)>;

  FakeClient(os::EventLoop& loop, Answer answer) : loop_(loop), answer_(std::move(answer)) {}

  [[nodiscard]] std::unique_ptr<Call> send(http::ClientRequest request,
                                           http::ClientCallbacks callbacks) override {
    most_ = std::max(most_, ++under_way_);
    loop_.post([this, request = std::move(request), callbacks = std::move(callbacks)] {
      --under_way_;
      answer_(request, callbacks);
    });
    return std::make_unique<FakeCall>(cancelled_);
  }
  [[nodiscard]] std::size_t most() const { return most_; }
  [[nodiscard]] std::size_t cancelled() const { return cancelled_; }

 private:
  struct FakeCall final : Call {
    explicit FakeCall(std::size_t& count) : cancelled(count) {}
    void cancel() override { ++cancelled; }
    std::size_t& cancelled;
  };

  os::EventLoop& loop_;
  Answer answer_;
  std::size_t under_way_ = 0;
  std::size_t most_ = 0;
  std::size_t cancelled_ = 0;
};

std::string good_stream() {
  return http::sse_comment("ping") +
         http::sse_event(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})") +
         http::sse_event(R"({"choices":[{"index":0,"delta":{"content":"3 "}}]})") +
         http::sse_event(
             R"({"choices":[{"index":0,"delta":{"content":"4"},"finish_reason":"stop"}]})") +
         http::sse_event(
             R"({"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}})") +
         http::sse_event("[DONE]");
}

class DriverTest : public testing::Test {
 protected:
  std::vector<RequestRecord> run(std::size_t count,
                                 const FakeClient::Answer& answer,
                                 std::vector<Duration> arrivals = {},
                                 std::optional<std::string> expected_text = std::nullopt) {
    FakeClient client(loop_, answer);
    Driver driver(loop_, client, clock_, options_);
    std::vector<PreparedRequest> requests;
    for (std::size_t i = 0; i < count; ++i) {
      requests.push_back({std::to_string(i), expected_text, max_tokens_});
    }
    arrivals.resize(count, Duration::zero());
    std::vector<RequestRecord> records;
    driver.run(std::move(requests), std::move(arrivals), [&](auto result, Duration) {
      records = std::move(result);
      loop_.stop();
    });
    loop_.run();
    EXPECT_EQ(driver.finished(), count);
    most_under_way_ = client.most();
    cancelled_ = client.cancelled();
    return records;
  }

  static void answer_with(const http::ClientCallbacks& callbacks,
                          std::string_view body,
                          const Status& end = ok()) {
    callbacks.on_head(200, {});
    callbacks.on_data(body);
    callbacks.on_end(end);
  }

  os::EventLoop loop_;
  test::ManualClock clock_;
  DriverOptions options_;
  std::size_t most_under_way_ = 0;
  std::size_t cancelled_ = 0;
  std::uint32_t max_tokens_ = 0;
};

TEST_F(DriverTest, RecordsWhatCameBack) {
  options_.target = "/v1/chat/completions";
  const auto records = run(3, [](const auto& request, const auto& callbacks) {
    EXPECT_EQ(request.target, "/v1/chat/completions");
    EXPECT_EQ(request.method, "POST");
    answer_with(callbacks, good_stream());
  });
  for (const RequestRecord& record : records) {
    EXPECT_EQ(record.error, "");
    EXPECT_EQ(record.text, "3 4");
    EXPECT_EQ(record.input_tokens, 5U);
    EXPECT_EQ(record.output_tokens, 2U);
    EXPECT_EQ(record.token_times.size(), 2U);
  }
}

TEST_F(DriverTest, BelievesNoUsageThatIsRefused) {
  const auto records = run(1, [](const auto&, const auto& callbacks) {
    std::string stream = good_stream();
    const std::string usage = R"("completion_tokens":2,"total_tokens":7)";
    stream.replace(
        stream.find(usage), usage.size(), R"("completion_tokens":4000000,"total_tokens":4000005)");
    answer_with(callbacks, stream);
  });
  EXPECT_NE(records[0].error.find("4000000"), std::string::npos) << records[0].error;
  EXPECT_EQ(records[0].output_tokens, 2U);
}

TEST_F(DriverTest, AStreamCutAtAnyByteIsAFailure) {
  const std::string stream = good_stream();
  std::size_t length = 0;
  for (const Status& end : {ok(), Status(data_loss("the connection was closed"))}) {
    length = 0;
    const std::size_t count = stream.size() + (end ? 0 : 1);
    const auto records = run(count, [&](const auto&, const auto& callbacks) {
      answer_with(callbacks, stream.substr(0, length++), end);
    });
    for (std::size_t i = 0; i < records.size(); ++i) {
      EXPECT_NE(records[i].error, "") << "cut after " << i << " bytes";
    }
  }
}

TEST_F(DriverTest, ReadsNoFurtherThanWhatMakesSense) {
  max_tokens_ = 3;
  const std::string token = http::sse_event(R"({"choices":[{"index":0,"delta":{"content":"4"}}]})");
  const auto endless = run(1, [&](const auto&, const auto& callbacks) {
    callbacks.on_head(200, {});
    for (int i = 0; i < 100; ++i) {
      callbacks.on_data(token);
    }
    callbacks.on_end(Error(Code::kCancelled, "cancelled"));
  });
  EXPECT_EQ(endless[0].error, "expected at most 3 tokens, came more than 6");
  EXPECT_EQ(endless[0].token_times.size(), 8U);
  EXPECT_EQ(cancelled_, 1U);
  const std::string piece(1 << 20, 'x');
  const auto no_line = run(1, [&](const auto&, const auto& callbacks) {
    callbacks.on_head(200, {});
    for (int i = 0; i < 40; ++i) {
      callbacks.on_data(piece);
    }
    callbacks.on_end(Error(Code::kCancelled, "cancelled"));
  });
  EXPECT_NE(no_line[0].error.find("larger than"), std::string::npos) << no_line[0].error;
  EXPECT_EQ(cancelled_, 1U);
}

TEST_F(DriverTest, SaysThatNoStreamCame) {
  const auto records =
      run(1, [](const auto&, const auto& callbacks) { answer_with(callbacks, R"({"id":"x"})"); });
  EXPECT_EQ(records[0].error, "expected a stream of events, came an answer without any");
}

TEST_F(DriverTest, TellsNoServerFromOneThatHangsUp) {
  const Error gone = unavailable("gone");
  const auto no_server =
      run(1, [&](const auto&, const auto& callbacks) { callbacks.on_end(gone); });
  EXPECT_TRUE(no_server[0].unreached);
  const auto hangs_up = run(1, [&](const auto&, const auto& callbacks) {
    callbacks.on_connected();
    callbacks.on_end(gone);
  });
  EXPECT_FALSE(hangs_up[0].unreached);
  EXPECT_EQ(hangs_up[0].error, no_server[0].error);
}

TEST_F(DriverTest, NamesWhatTheServerRefused) {
  const auto records = run(1, [](const auto&, const auto& callbacks) {
    callbacks.on_head(503, {});
    callbacks.on_data(R"({"error":{"message":"the queue is full"}})");
    callbacks.on_end(ok());
  });
  EXPECT_EQ(records[0].error, "HTTP 503: the queue is full");
}

TEST_F(DriverTest, NamesAConnectionThatFailed) {
  const auto records = run(1, [](const auto&, const auto& callbacks) {
    callbacks.on_end(unavailable("cannot connect"));
  });
  EXPECT_EQ(records[0].error, "unavailable: cannot connect");
}

TEST_F(DriverTest, ComparesTheAnswerWithTheExpectedText) {
  const auto answer = [](const auto&, const auto& callbacks) {
    answer_with(callbacks, good_stream());
  };
  EXPECT_EQ(run(1, answer, {}, "3 4")[0].error, "");
  EXPECT_EQ(run(1, answer, {}, "3 4 5")[0].error, R"(wrong answer: expected "3 4 5", came "3 4")");
}

TEST_F(DriverTest, KeepsToTheConcurrencyLimit) {
  options_.max_concurrency = 4;
  options_.closed_loop = true;
  const auto records = run(50, [&](const auto&, const auto& callbacks) {
    clock_.advance(milliseconds(1));
    answer_with(callbacks, good_stream());
  });
  EXPECT_EQ(most_under_way_, 4U);
  for (const RequestRecord& record : records) {
    EXPECT_EQ(record.intended, record.sent) << "a closed loop has no queue";
  }
}

// A rate so high that all arrive in the first nanosecond.
TEST_F(DriverTest, CountsTheWaitForAPlaceOfAnOpenLoop) {
  options_.max_concurrency = 4;
  const auto records = run(50, [&](const auto&, const auto& callbacks) {
    clock_.advance(milliseconds(1));
    answer_with(callbacks, good_stream());
  });
  EXPECT_GT(records.back().sent, Duration::zero());
  for (const RequestRecord& record : records) {
    EXPECT_EQ(record.intended, Duration::zero());
  }
}

TEST_F(DriverTest, CountsTheTimeThatARequestWaitedForItsPlace) {
  options_.max_concurrency = 1;
  const auto records = run(2,
                           [&](const auto&, const auto& callbacks) {
                             clock_.advance(milliseconds(50));
                             answer_with(callbacks, good_stream());
                           },
                           {Duration::zero(), milliseconds(10)});
  EXPECT_EQ(records[1].intended, Duration(milliseconds(10)));
  EXPECT_EQ(records[1].sent, Duration(milliseconds(50)));
  EXPECT_EQ(records[1].token_times.front(), Duration(milliseconds(100)));
}

}  // namespace
}  // namespace phalanx::loadgen
