// SPDX-License-Identifier: Apache-2.0
#include "phalanx/loadgen/driver.h"

#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/http/sse_parser.h"
#include "phalanx/openai/stream_event.h"

namespace phalanx::loadgen {
namespace {

// Tokens are counted as events, of which some servers send one or two that carry none.
constexpr std::uint64_t kMostTimesTokens = 2;

// Of a refusal, which is no stream.
constexpr std::size_t kMaxErrorBodyBytes = 4096;

}  // namespace

// What is needed of a request while it is under way.
struct Driver::Flight {
  explicit Flight(StreamAudit::Rules rules) : audit(rules) {}

  std::unique_ptr<http::Client::Call> call;
  StreamAudit audit;
  std::unique_ptr<http::SseParser> events;
  bool connected = false;
  int status = 0;
  std::string error_body;
  std::optional<std::string> malformed;

  // What else it says is not worth reading.
  void end(std::string why) {
    malformed = std::move(why);
    call->cancel();
  }
};

Driver::Driver(os::EventLoop& loop, http::Client& client, const Clock& clock, DriverOptions options)
    : loop_(loop), client_(client), clock_(clock), options_(std::move(options)) {}

Driver::~Driver() = default;

void Driver::run(std::vector<PreparedRequest> requests, std::vector<Duration> arrivals, Done done) {
  PHALANX_CHECK(!requests.empty() && requests.size() == arrivals.size(),
                "one arrival time per request");
  PHALANX_CHECK(!done_, "a run is under way");
  requests_ = std::move(requests);
  arrivals_ = std::move(arrivals);
  done_ = std::move(done);
  records_.assign(requests_.size(), {});
  flights_.clear();
  flights_.resize(requests_.size());
  next_ = under_way_ = finished_ = failed_ = 0;
  started_ = clock_.now();
  send_due();
}

void Driver::send_due() {
  timer_.reset();
  while (next_ < requests_.size()) {
    if (options_.max_concurrency && under_way_ >= *options_.max_concurrency) {
      return;  // the next end goes on
    }
    const Duration wait = arrivals_[next_] - elapsed();
    if (wait > Duration::zero()) {
      timer_ = loop_.call_after(wait, [this] { send_due(); });
      return;
    }
    send(next_++);
  }
}

void Driver::give_up() {
  if (!done_) {
    return;
  }
  timer_.reset();
  std::vector<RequestRecord> ended;
  for (std::size_t i = 0; i < next_; ++i) {
    if (!flights_[i]) {
      ended.push_back(std::move(records_[i]));
    }
  }
  flights_.clear();
  const Done done = std::exchange(done_, nullptr);
  done(std::move(ended), elapsed());
}

void Driver::send(std::size_t index) {
  auto flight = std::make_unique<Flight>(options_.rules);
  Flight* const one = flight.get();
  one->events = std::make_unique<http::SseParser>([this, index, one](const http::SseEvent& event) {
    if (one->malformed) {
      return;
    }
    if (one->audit.on_event(event.data) == StreamAudit::Seen::kToken) {
      records_[index].token_times.push_back(elapsed());
    }
    const std::uint64_t most = requests_[index].max_tokens;
    if (most > 0 && one->audit.tokens() > kMostTimesTokens * most + 1) {
      one->end("expected at most " + std::to_string(most) + " tokens, came more than " +
               std::to_string(kMostTimesTokens * most));
    }
  });
  http::ClientRequest request;
  request.host = options_.host;
  request.port = options_.port;
  request.method = "POST";
  request.target = options_.target;
  request.headers = options_.headers;
  request.body = std::move(requests_[index].body);
  request.total_timeout = options_.request_timeout;
  http::ClientCallbacks callbacks;
  callbacks.on_connected = [one] { one->connected = true; };
  callbacks.on_head = [one](int status, const http::Headers&) { one->status = status; };
  callbacks.on_data = [one](std::string_view bytes) {
    if (one->status != 200) {
      one->error_body.append(bytes.substr(0, kMaxErrorBodyBytes - one->error_body.size()));
    } else if (const Status fed = one->events->feed(bytes); !fed && !one->malformed) {
      one->end(fed.error().message());
    }
  };
  callbacks.on_end = [this, index](const Status& status) { on_end(index, status); };
  RequestRecord& record = records_[index];
  record.sent = elapsed();
  const bool is_planned = !options_.closed_loop || !options_.max_concurrency;
  record.intended = is_planned ? arrivals_[index] : record.sent;
  ++under_way_;
  flights_[index] = std::move(flight);
  one->call = client_.send(std::move(request), std::move(callbacks));
}

void Driver::on_end(std::size_t index, const Status& status) {
  Flight& flight = *flights_[index];
  RequestRecord& record = records_[index];
  record.end = elapsed();
  if (flight.status == 0) {
    record.error = status ? "an answer without a head" : status.error().to_string();
    record.unreached = !flight.connected;
  } else if (flight.status != 200) {
    record.error = "HTTP " + std::to_string(flight.status) + ": " +
                   openai::error_message_of(flight.error_body);
  } else {
    flight.audit.on_end(status, flight.events->inside_event());
    record.error = flight.malformed ? *flight.malformed : flight.audit.failure().value_or("");
  }
  record.text = flight.audit.text();
  record.output_tokens = flight.audit.tokens();
  if (flight.audit.usage()) {
    record.input_tokens = flight.audit.usage()->prompt_tokens;
    if (record.error.empty()) {
      record.output_tokens = flight.audit.usage()->completion_tokens;
    }
  }
  const auto& expected = requests_[index].expected_text;
  if (record.error.empty() && expected && record.text != *expected) {
    record.error = "wrong answer: expected \"" + *expected + "\", came \"" + record.text + "\"";
  }
  failed_ += record.error.empty() ? 0U : 1U;
  --under_way_;
  ++finished_;
  // Not now: this runs inside a callback of the call that the flight owns.
  loop_.post([this,
              alive = std::weak_ptr<bool>(alive_),
              ended = std::shared_ptr<Flight>(std::move(flights_[index]))]() mutable {
    ended.reset();
    if (alive.expired()) {
      return;
    }
    if (finished_ == requests_.size() && done_) {
      const Done done = std::exchange(done_, nullptr);
      done(std::move(records_), elapsed());
    } else if (done_) {
      send_due();
    }
  });
}

}  // namespace phalanx::loadgen
