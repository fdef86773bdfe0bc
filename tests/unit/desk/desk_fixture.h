// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/desk/front_desk.h"
#include "phalanx/os/control_socket.h"
#include "phalanx/wire/codec.h"

#include "support/manual_clock.h"

namespace phalanx::desk {

inline constexpr std::uint32_t kMaxTokens = 5;

inline constexpr wire::RequestKey kKey{7, 1};
inline constexpr wire::RequestKey kOther{7, 2};

// A replica's link that takes everything.
struct FakePort {
  wire::Sent operator()(ReplicaId /*replica*/, const wire::LeaderMessage& message) {
    if (const auto* const submit = std::get_if<wire::Submit>(&message)) {
      submits.push_back(*submit);
    } else {
      cancels.push_back(std::get<wire::Cancel>(message).key);
    }
    return wire::Sent::kQueued;
  }
  std::vector<wire::Submit> submits;
  std::vector<wire::SequenceKey> cancels;
};

// A desk with a dispatcher whose only replica is the test. What a front is sent must be what it may
// be sent.
class DeskTest : public testing::Test {
 protected:
  DeskTest() { router_.table().at(ReplicaId(0)).ready = true; }

  DeskParts parts() {
    return {dispatcher_,
            admission_,
            metrics_,
            clock_,
            [this] { return accepting_; },
            [this](std::size_t front, const wire::LeaderToFront& record) {
              EXPECT_TRUE(wire::check(record));
              EXPECT_LE(wire::encode(record).size(), os::kMaxControlRecordBytes);
              sent_.emplace_back(front, record);
            },
            [this](Duration) { ++flushes_asked_; },
            [this](std::size_t front, std::uint64_t connection) {
              return owner_ ? front == owner_ && connection == kKey.connection : true;
            },
            [this](std::size_t) { return behind_; }};
  }

  // Asks for a place; the answer.
  wire::Admitted admit(const wire::RequestKey& key, bool generates = true, std::size_t front = 0) {
    sent_.clear();
    EXPECT_TRUE(desk_.on_admit(front, {key, "/v1/completions", 10, generates}));
    EXPECT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_.at(0).first, front);
    return std::get<wire::Admitted>(sent_.at(0).second);
  }

  // Begins a request that gets a place.
  void begin(const wire::RequestKey& key,
             std::uint32_t prompts = 1,
             std::uint64_t booked_tokens = 100,
             std::size_t front = 0) {
    EXPECT_EQ(admit(key, true, front).code, 0U);
    EXPECT_TRUE(desk_.on_begin(front, {key, "id-1", booked_tokens, prompts, false, 70}));
  }

  void generate(const wire::RequestKey& key,
                std::uint32_t choices = 1,
                std::uint32_t max_tokens = kMaxTokens,
                std::size_t front = 0) {
    EXPECT_TRUE(desk_.on_prompt_part(front, {key, {'p', 'q'}}));
    EXPECT_TRUE(desk_.on_generate(front, generate_of(key, choices, max_tokens)));
    take_turns();
  }

  // The turns of the loop that the dispatcher has asked for.
  void take_turns() {
    while (std::exchange(more_, false)) {
      dispatcher_.dispatch_more();
    }
  }

  static wire::Generate generate_of(const wire::RequestKey& key,
                                    std::uint32_t choices = 1,
                                    std::uint32_t max_tokens = kMaxTokens) {
    return {key, choices, {}, {.max_tokens = max_tokens}, ""};
  }

  // The token at `position` of the choice that was dispatched as number `index`.
  [[nodiscard]] wire::TokenUpdate token_of(std::size_t index,
                                           std::uint32_t position,
                                           TokenId token = 'a') const {
    wire::TokenUpdate update;
    update.key = port_.submits.at(index).key;
    update.position = position;
    update.has_token = true;
    update.token = token;
    return update;
  }
  void produce(const wire::TokenUpdate& update) {
    dispatcher_.on_token_batch(ReplicaId(0), {StepId(1), {update}});
    take_turns();
  }
  void produce(std::size_t index, std::uint32_t position, TokenId token = 'a') {
    produce(token_of(index, position, token));
  }

  void break_down(std::size_t index, const std::string& message = "broken") {
    wire::TokenUpdate update;
    update.key = port_.submits.at(index).key;
    update.finish = step::FinishReason::kError;
    update.error_code = static_cast<std::uint32_t>(Code::kInvalidArgument);
    update.error_message = message;
    produce(update);
  }

  // What is sent now, record by record.
  std::vector<wire::FrontEvents> flush(std::size_t front = 0) {
    sent_.clear();
    desk_.flush();
    std::vector<wire::FrontEvents> records;
    for (const auto& [to, record] : sent_) {
      if (to == front) {
        records.push_back(std::get<wire::FrontEvents>(record));
      }
    }
    return records;
  }

  // The same, event by event.
  std::vector<wire::FrontEvent> flush_events(std::size_t front = 0) {
    std::vector<wire::FrontEvent> events;
    for (const wire::FrontEvents& record : flush(front)) {
      events.insert(events.end(), record.events.begin(), record.events.end());
    }
    return events;
  }

  // The value of the series with that name and these labels; 0 without one.
  [[nodiscard]] double series(const std::string& name,
                              const std::string& labels = R"(model_name="m")") const {
    const std::string beginning = name + "{" + labels + "} ";
    std::istringstream text(registry_.serialize());
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with(beginning)) {
        return std::stod(line.substr(beginning.size()));
      }
    }
    return 0;
  }
  [[nodiscard]] double refused(int status) const {
    return series("phalanx_requests_refused_total",
                  R"(model_name="m",status=")" + std::to_string(status) + "\"");
  }
  [[nodiscard]] double ended(const std::string& outcome) const {
    return series("vllm:request_success_total",
                  "finished_reason=\"" + outcome + R"(",model_name="m")");
  }
  [[nodiscard]] double counted_tokens() const {
    return series("vllm:request_generation_tokens_sum");
  }
  [[nodiscard]] double generated_tokens() const { return series("vllm:generation_tokens_total"); }

  void expect_nothing_left() {
    EXPECT_EQ(desk_.open(), 0U);
    EXPECT_EQ(admission_.requests(), 0U);
    EXPECT_EQ(admission_.tokens(), 0U);
    EXPECT_EQ(dispatcher_.requests(), 0U);
    EXPECT_EQ(router_.ledger().pending(ReplicaId(0)), dispatch::Remainder{});
  }

  test::ManualClock clock_;
  FakePort port_;
  dispatch::Admission admission_{{64, 16'000}};
  dispatch::Router router_{1, *dispatch::make_policy("round_robin", 1)};
  bool more_ = false;
  dispatch::Dispatcher dispatcher_{
      router_, std::ref(port_), clock_, {std::chrono::seconds(10), {}, [this] { more_ = true; }}};
  obs::MetricRegistry registry_;
  RequestMetrics metrics_{registry_, "m"};
  Status accepting_ = ok();
  std::vector<std::pair<std::size_t, wire::LeaderToFront>> sent_;
  int flushes_asked_ = 0;
  bool behind_ = false;               // every front
  std::optional<std::size_t> owner_;  // of the only connection; none: who asks for a place has it
  FrontDesk desk_{parts()};
};

}  // namespace phalanx::desk
