// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <utility>

#include "phalanx/http/client.h"
#include "phalanx/loadgen/arrival.h"
#include "phalanx/loadgen/driver.h"
#include "phalanx/openai/stream_event.h"
#include "phalanx/os/event_loop.h"

#include "progress.h"

namespace phalanx::load {
namespace {

constexpr std::size_t kMaxModelListBytes = std::size_t{1} << 20;

struct Finished {
  std::vector<loadgen::RequestRecord> records;
  Duration duration{};
};

class Session {
 public:
  explicit Session(Options options)
      : options_(std::move(options)),
        client_(http::Client::create(loop_)),
        driver_(loop_, *client_, steady_clock(), driver_options()) {}

  Result<Outcome> run() {
    if (options_.model.empty()) {
      PHALANX_TRY(options_.model, first_model());
    }
    options_.fields.model = options_.model;
    PHALANX_TRY(auto prepared, prepare());
    PHALANX_RETURN_IF_ERROR(warm_up(prepared));
    auto arrivals = loadgen::arrival_times({.request_rate = options_.request_rate,
                                            .burstiness = options_.burstiness,
                                            .count = prepared.size(),
                                            .seed = static_cast<std::uint64_t>(options_.seed)});
    Finished finished = measure(std::move(prepared), std::move(arrivals));
    if (finished.records.empty()) {
      return Outcome{{}, signal_};
    }
    return Outcome{
        loadgen::build_report(settings(), std::move(finished.records), finished.duration), signal_};
  }

 private:
  [[nodiscard]] std::optional<std::size_t> max_concurrency() const {
    return options_.max_concurrency == 0
               ? std::nullopt
               : std::optional(static_cast<std::size_t>(options_.max_concurrency));
  }

  [[nodiscard]] loadgen::DriverOptions driver_options() const {
    loadgen::DriverOptions result;
    result.host = options_.host;
    result.port = static_cast<std::uint16_t>(options_.port);
    result.target = options_.endpoint;
    result.headers = options_.http_headers;
    result.request_timeout = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(options_.request_timeout_s));
    result.max_concurrency = max_concurrency();
    result.closed_loop = std::isinf(options_.request_rate);
    result.rules.usage_counts_events = options_.audit_usage;
    return result;
  }

  [[nodiscard]] loadgen::RunSettings settings() const {
    return {.backend = options_.backend,
            .label = options_.label,
            .model_id = options_.model,
            .request_rate = options_.request_rate,
            .burstiness = options_.burstiness,
            .max_concurrency = max_concurrency(),
            .metrics = options_.metrics,
            .percentiles = options_.percentiles,
            .goodput = options_.goodput};
  }

  // Asks the server, so that a wrong address is found before anything is measured.
  Result<std::string> first_model() {
    std::string body;
    int status = 0;
    Status end = ok();
    http::ClientRequest request{.host = options_.host,
                                .port = static_cast<std::uint16_t>(options_.port),
                                .target = options_.model_list,
                                .headers = options_.http_headers,
                                .total_timeout = std::min<Duration>(
                                    driver_options().request_timeout, std::chrono::seconds(30))};
    const auto call = client_->send(
        std::move(request),
        {.on_head = [&](int its_status, const http::Headers&) { status = its_status; },
         .on_data =
             [&](std::string_view bytes) {
               body.append(bytes.substr(0, kMaxModelListBytes - body.size()));
             },
         .on_end =
             [&](Status its_end) {
               end = std::move(its_end);
               loop_.stop();
             }});
    loop_.run();
    if (!end) {
      return unavailable(end.error().message());
    }
    const auto no_model = [&](const std::string& why) {
      return unavailable("GET " + options_.model_list + " answered " + std::to_string(status) +
                         " and no model: " + why + "; name one with --model");
    };
    if (status != 200) {
      return no_model(body.empty() ? "its body is empty" : openai::error_message_of(body));
    }
    const auto models = openai::parse_model_list(body);
    if (!models) {
      return no_model(models.error().message());
    }
    return models->empty() ? no_model("its list is empty") : Result(models->front());
  }

  Result<std::vector<loadgen::PlannedRequest>> plan() const {
    const auto count = static_cast<std::size_t>(options_.num_prompts);
    const auto seed = static_cast<std::uint64_t>(options_.seed);
    if (options_.verify_counts) {
      return loadgen::count_workload(count, seed);
    }
    if (options_.dataset_name == "custom") {
      return loadgen::load_custom_workload(
          options_.dataset_path, count, static_cast<std::uint32_t>(options_.custom_output_len));
    }
    return loadgen::random_workload(
        {.count = count,
         .input_len = static_cast<std::uint32_t>(options_.random_input_len),
         .output_len = static_cast<std::uint32_t>(options_.random_output_len),
         .range_ratio = options_.random_range_ratio,
         .seed = seed},
        options_.api);
  }

  Result<std::vector<loadgen::PreparedRequest>> prepare() const {
    PHALANX_TRY(const auto planned, plan());
    std::vector<loadgen::PreparedRequest> prepared;
    prepared.reserve(planned.size());
    for (const loadgen::PlannedRequest& request : planned) {
      PHALANX_TRY(auto body, loadgen::request_body(request, options_.fields, options_.api));
      prepared.push_back({std::move(body), request.expected_text, request.max_tokens});
    }
    return prepared;
  }

  Status warm_up(const std::vector<loadgen::PreparedRequest>& prepared) {
    std::vector<loadgen::PreparedRequest> some;
    for (std::size_t i = 0; i < static_cast<std::size_t>(options_.num_warmups); ++i) {
      some.push_back(prepared[i % prepared.size()]);
    }
    if (some.empty()) {
      return ok();
    }
    const std::size_t count = some.size();
    const Finished finished = drive(std::move(some), std::vector<Duration>(count));
    for (const loadgen::RequestRecord& record : finished.records) {
      if (!record.error.empty()) {
        return unavailable("a warm-up request failed: " + record.error);
      }
    }
    return ok();
  }

  // A signal ends it, so that what was measured until then is not lost.
  Finished measure(std::vector<loadgen::PreparedRequest> prepared, std::vector<Duration> arrivals) {
    const Progress progress(loop_, driver_, prepared.size(), options_.show_progress);
    std::vector<std::unique_ptr<os::EventLoop::Handle>> signals;
    for (const int number : {SIGINT, SIGTERM}) {
      signals.push_back(loop_.watch_signal(number, [this](int came) {
        signal_ = came;
        std::fprintf(
            stderr,
            "\nphalanx-load: interrupted: %zu requests under way are given up, %zu are not sent\n",
            driver_.under_way(),
            driver_.unsent());
        driver_.give_up();
      }));
    }
    return drive(std::move(prepared), std::move(arrivals));
  }

  Finished drive(std::vector<loadgen::PreparedRequest> requests, std::vector<Duration> arrivals) {
    Finished finished;
    driver_.run(std::move(requests), std::move(arrivals), [&](auto records, Duration duration) {
      finished = {std::move(records), duration};
      loop_.stop();
    });
    loop_.run();
    return finished;
  }

  Options options_;
  os::EventLoop loop_;
  std::unique_ptr<http::Client> client_;
  loadgen::Driver driver_;
  int signal_ = 0;
};

}  // namespace

Result<Outcome> run_session(Options options) {
  return Session(std::move(options)).run();
}

}  // namespace phalanx::load
