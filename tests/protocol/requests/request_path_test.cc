// SPDX-License-Identifier: Apache-2.0
// Bodies at the bounds of what the API takes, through every program that reads them: what one has
// taken no other refuses, up to the rank's command and back to the front.
#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/desk/front_desk.h"
#include "phalanx/engine/scheduler.h"
#include "phalanx/front/leader_link.h"
#include "phalanx/os/control_socket.h"
#include "phalanx/wire/codec.h"

#include "preparation.h"
#include "support/manual_clock.h"
#include "unit/serving/byte_tokenizer.h"

namespace phalanx {
namespace {

constexpr std::uint32_t kContext = 1U << 17U;
constexpr std::uint32_t kVocab = 1U << 22U;
constexpr wire::RequestKey kKey{std::numeric_limits<std::uint64_t>::max(), 1};

// A front, the leader's desk and dispatcher, and the scheduler of a replica. Every message between
// them is the bytes that go from one process to another; only the ranks are the test.
class Programs {
 public:
  Programs() {
    auto pair = os::ControlSocket::make_pair();
    std::tie(leader_end_, front_end_) = *std::move(pair);
    router_.table().at(ReplicaId(0)).ready = true;
    front::LinkCalls calls;
    calls.on_broken = [](const Error& error) { ADD_FAILURE() << error.to_string(); };
    link_ = std::make_unique<front::LeaderLink>(loop_, front_end_, std::move(calls));
    EXPECT_TRUE(link_->start());
  }

  struct Sink final : serving::RequestSink {
    void on_token(const wire::FrontEvent& /*token*/) override { ++tokens; }
    void on_history(const wire::History& /*history*/) override {}
    void on_error(const Error& error) override { ADD_FAILURE() << error.to_string(); }
    std::size_t tokens = 0;
  };

  // Sends it on its way, until each of its choices has run for some steps.
  void run(std::vector<serving::GenerationRequest> prompts) {
    std::size_t choices = 0;
    serving::RequestSummary summary{.id = std::string(wire::kMaxNameBytes, 'i')};
    for (const serving::GenerationRequest& prompt : prompts) {
      choices += prompt.generation.choices;
      summary.booked_tokens += prompt.booked_tokens;
    }
    const auto sink = std::make_shared<Sink>();
    link_->admit({kKey, "/v1/completions", summary.booked_tokens, true}, [&](const Status& place) {
      EXPECT_TRUE(place);
      link_->begin(kKey, summary, std::move(prompts), sink);
    });
    const auto guard = loop_.call_after(std::chrono::seconds(30), [this] {
      ADD_FAILURE() << "the request stands still";
      loop_.stop();
    });
    const auto turns = loop_.call_every(std::chrono::microseconds(200), [&] {
      turn();
      if (submits_ == choices && scheduler_.waiting() == 0 && sink->tokens >= choices) {
        loop_.stop();
      }
    });
    loop_.run();
    link_->end({kKey, "client_gone", "", 200});
    turn();
    step();
    EXPECT_TRUE(scheduler_.empty());
    EXPECT_EQ(desk_.open(), 0U);
  }

 private:
  desk::DeskParts parts() {
    return {dispatcher_,
            admission_,
            metrics_,
            clock_,
            [] { return ok(); },
            [this](std::size_t, const wire::LeaderToFront& record) {
              unsent_.push_back(wire::encode(record));
            },
            [](Duration) {},
            [](std::size_t, std::uint64_t) { return true; }};
  }

  wire::Sent send(const wire::LeaderMessage& message) {
    const auto frame = wire::decode_leader_frame(wire::encode(wire::LeaderFrame{{}, {}, message}));
    EXPECT_TRUE(frame) << frame.error().message();
    if (frame) {
      EXPECT_EQ(frame->message, message);
      if (const auto* const submit = std::get_if<wire::Submit>(&frame->message)) {
        const auto taken = scheduler_.submit(*submit);
        EXPECT_TRUE(taken) << taken.error().message();
        ++submits_;
      } else {
        EXPECT_TRUE(scheduler_.cancel(std::get<wire::Cancel>(frame->message).key));
      }
    }
    return wire::Sent::kQueued;
  }

  // One of each program.
  void turn() {
    for (auto heard = hear(); heard; heard = hear()) {
      const Status taken = take(*heard);
      EXPECT_TRUE(taken) << taken.error().message();
    }
    while (std::exchange(more_, false)) {
      dispatcher_.dispatch_more();
    }
    step();
    desk_.flush();
    while (!unsent_.empty() && *leader_end_.send(unsent_.front()) == os::ControlSent::kQueued) {
      unsent_.pop_front();
    }
  }

  std::optional<wire::FrontToLeader> hear() {
    auto received = leader_end_.receive();
    EXPECT_TRUE(received);
    const auto* const message = std::get_if<os::ControlMessage>(&*received);
    if (message == nullptr) {
      return std::nullopt;
    }
    auto record = wire::decode_front_to_leader(message->bytes);
    EXPECT_TRUE(record) << record.error().message();
    return record ? std::optional(*std::move(record)) : std::nullopt;
  }

  Status take(const wire::FrontToLeader& record) {
    if (const auto* const wish = std::get_if<wire::Admit>(&record)) {
      return desk_.on_admit(0, *wish);
    }
    if (const auto* const begin = std::get_if<wire::Begin>(&record)) {
      return desk_.on_begin(0, *begin);
    }
    if (const auto* const part = std::get_if<wire::PromptPart>(&record)) {
      return desk_.on_prompt_part(0, *part);
    }
    if (const auto* const generate = std::get_if<wire::Generate>(&record)) {
      return desk_.on_generate(0, *generate);
    }
    return desk_.on_end(0, std::get<wire::End>(record));
  }

  void step() {
    tell(scheduler_.sweep());
    const engine::StepPlan plan = scheduler_.plan();
    if (!plan.changes_anything()) {
      return;
    }
    scheduler_.begin(plan);
    const wire::RankCommand command = scheduler_.command(plan);
    const auto read = wire::decode_rank_command(wire::encode(command));
    EXPECT_TRUE(read) << read.error().message();
    EXPECT_TRUE(read && *read == command);
    step::SampleResult sample;
    sample.token = static_cast<TokenId>(kVocab - 2);
    sample.logprob = std::numeric_limits<float>::lowest();
    sample.top_count = step::kMaxTopLogprobs;
    tell(scheduler_.confirm(plan, std::vector(plan.rows.size(), sample)));
    wire::RankCommand all;
    all.op = wire::RankOp::kAttach;
    all.attach = scheduler_.attach_table();
    EXPECT_TRUE(wire::decode_rank_command(wire::encode(all)));
  }

  void tell(std::vector<wire::TokenUpdate> updates) {
    const wire::ReplicaFrame frame{{}, {}, wire::TokenBatch{StepId(1), std::move(updates)}};
    const auto read = wire::decode_replica_frame(wire::encode(frame));
    EXPECT_TRUE(read) << read.error().message();
    dispatcher_.on_token_batch(ReplicaId(0), std::get<wire::TokenBatch>(read->message));
  }

  os::EventLoop loop_;
  os::ControlSocket leader_end_;
  os::ControlSocket front_end_;
  std::unique_ptr<front::LeaderLink> link_;
  std::deque<std::string> unsent_;
  test::ManualClock clock_;
  engine::Scheduler scheduler_{{.limits = {.max_model_len = kContext,
                                           .max_num_seqs = 256,
                                           .max_num_batched_tokens = 1U << 16U,
                                           .kv_blocks = 1U << 18U},
                                .vocab_size = kVocab,
                                .prefix_cache = true}};
  std::size_t submits_ = 0;
  dispatch::Admission admission_{{64, 16'000}};
  dispatch::Router router_{1, *dispatch::make_policy("round_robin", 1)};
  bool more_ = false;
  dispatch::Dispatcher dispatcher_{
      router_,
      [this](ReplicaId, const wire::LeaderMessage& message) { return send(message); },
      clock_,
      {std::chrono::seconds(10), {}, [this] { more_ = true; }}};
  obs::MetricRegistry registry_;
  desk::RequestMetrics metrics_{registry_, "m"};
  desk::FrontDesk desk_{parts()};
};

// Bodies of /v1/completions whose members are at the edge of what each may be.
class Bodies {
 public:
  explicit Bodies(std::uint32_t seed) : random_(seed) {}

  std::string next() {
    const std::size_t prompts = pick<std::size_t>({1, 1, 2, 127, 128});
    const bool of_ids = pick<int>({0, 1}) == 1;
    const std::size_t choices = std::max<std::size_t>(1, pick<std::size_t>({1, 128}) / prompts);
    std::string body = "{\"prompt\":[" +
                       joined(prompts, [&](std::size_t) { return prompt(of_ids); }) +
                       "],\"n\":" + std::to_string(choices);
    maybe(&body, "temperature", pick<std::string>({"0", "1e-40", "1e-300", "2"}));
    maybe(&body, "top_p", pick<std::string>({"1e-10", "1"}));
    maybe(&body, "min_p", pick<std::string>({"0", "5e-324", "1"}));
    maybe(&body, "repetition_penalty", pick<std::string>({"0.01", "100"}));
    maybe(&body, "presence_penalty", pick<std::string>({"-2", "-1e-45", "2"}));
    maybe(&body, "frequency_penalty", pick<std::string>({"-2", "-0.0", "2"}));
    maybe(&body, "top_k", pick<std::string>({"-1", "0", "1", "2147483647"}));
    maybe(&body, "seed", pick<std::string>({"-9223372036854775808", "9223372036854775807", "0"}));
    maybe(&body, "max_tokens", pick<std::string>({"1", "2", "64", "1000"}));
    maybe(&body, "min_tokens", pick<std::string>({"0", "1"}));
    maybe(&body, "logprobs", std::to_string(std::min<std::size_t>(20, 512 / (prompts * choices))));
    maybe(&body, "cache_salt", "\"" + std::string(wire::kMaxSaltBytes, 's') + "\"");
    maybe(&body, "ignore_eos", pick<std::string>({"true", "false"}));
    maybe(&body, "stop_token_ids", ids(step::kMaxRequestStopTokens));
    maybe(&body, "stop", texts(pick<std::size_t>({1, 4, 64})));
    maybe(&body, "logit_bias", biases(pick<std::size_t>({0, 1, step::kMaxLogitBias})));
    return body + "}";
  }

 private:
  template <typename Value>
  Value pick(std::vector<Value> values) {
    return values[random_() % values.size()];
  }
  void maybe(std::string* body, const std::string& field, const std::string& value) {
    if (random_() % 2 == 0) {
      *body += ",\"" + field + "\":" + value;
    }
  }
  template <typename Piece>
  static std::string joined(std::size_t count, const Piece& piece) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
      text += (i == 0 ? "" : ",") + piece(i);
    }
    return text;
  }
  std::string prompt(bool of_ids) {
    if (of_ids) {
      return ids(pick<std::size_t>({1, 31, 32, 33, wire::kMaxPromptPart}));
    }
    const auto size = random_() % 16 == 0
                          ? pick<std::size_t>({wire::kMaxPromptPart + 1, kContext - 1001})
                          : pick<std::size_t>({1, 31, 32, 33, 64, 65});
    return "\"" + std::string(size, static_cast<char>('a' + random_() % 2)) + "\"";
  }
  static std::string ids(std::size_t count) {
    return "[" + joined(count, [](std::size_t i) { return std::to_string(kVocab - 3 - i); }) + "]";
  }
  static std::string texts(std::size_t count) {
    const std::string text(4096 / 64 - 2, 'z');
    return "[" +
           joined(count,
                  [&](std::size_t i) { return "\"" + text + std::to_string(10 + i) + "\""; }) +
           "]";
  }
  static std::string biases(std::size_t count) {
    return "{" +
           joined(count,
                  [](std::size_t i) {
                    return "\"" + std::to_string(kVocab - 1 - i) +
                           "\":" + (i % 2 ? "-100" : "1e-40");
                  }) +
           "}";
  }

  std::mt19937 random_;
};

TEST(RequestPath, WhatOneProgramTakesNoOtherRefuses) {
  const auto tokenizer = serving::make_byte_tokenizer();
  serving::ServedModel model;
  model.name = "m";
  model.vocab = kVocab;
  model.max_model_len = kContext;
  model.tokenizer = tokenizer.get();
  model.end_tokens.resize(step::kMaxEndTokens);
  std::iota(model.end_tokens.begin(), model.end_tokens.end(), TokenId{1000});
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const std::string body = Bodies(seed).next();
    SCOPED_TRACE(std::to_string(seed) + ": " + body.substr(0, 60));
    serving::Prepared prepared = serving::prepare_completion(model, {body, {}, seed});
    ASSERT_FALSE(prepared.error) << prepared.error->message;
    Programs().run(std::move(prepared.prompts));
    if (HasFailure()) {
      break;
    }
  }
}

}  // namespace
}  // namespace phalanx
