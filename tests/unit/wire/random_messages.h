// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "phalanx/step/item.h"
#include "phalanx/step/limits.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/front_journal.h"
#include "phalanx/wire/limits.h"

namespace phalanx::wire {

// Valid messages of every shape, drawn from a seed.
class RandomMessages {
 public:
  explicit RandomMessages(std::uint32_t seed) : random_(seed) {}

  LeaderFrame leader_frame() {
    LeaderFrame frame{.boot = Boot(word()), .incarnation = Incarnation(small()), .message = {}};
    switch (below(3)) {
      case 0:
        frame.message = Submit{.key = key(),
                               .prompt_ids = tokens(1, 200),
                               .produced_ids = tokens(0, 50),
                               .sampling = sampling(),
                               .stop = stop(),
                               .cache_salt = text(kMaxSaltBytes)};
        break;
      case 1:
        frame.message = Cancel{key()};
        break;
      default:
        frame.message = StopReplica{.drain = coin(), .deadline_ms = small()};
    }
    return frame;
  }

  ReplicaFrame replica_frame() {
    ReplicaFrame frame{.boot = Boot(word()), .incarnation = Incarnation(small()), .message = {}};
    switch (below(7)) {
      case 0:
        frame.message = ReplicaHello{.protocol = small(), .secret = word(), .pid = number()};
        break;
      case 1:
        frame.message = ReplicaReady{.epoch = Epoch(small()),
                                     .numerics_fingerprint = word(),
                                     .kv_blocks = small(),
                                     .memory_bytes = word()};
        break;
      case 2:
        frame.message = batch();
        break;
      case 3:
        frame.message = status();
        break;
      case 4:
        frame.message = holding();
        break;
      case 5:
        frame.message =
            PrefixChanges{.cleared = coin(), .published = hashes(), .evicted = hashes()};
        break;
      default:
        frame.message = ReplicaFailed{.code = small(), .message = text(kMaxErrorBytes)};
    }
    return frame;
  }

  RankCommand rank_command() {
    RankCommand command{.epoch = Epoch(small()),
                        .step = StepId(word()),
                        .op = static_cast<RankOp>(1 + below(8)),
                        .attach = {},
                        .detach = words(10),
                        .items = {},
                        .zero_kv = coin()};
    for (std::uint32_t i = below(4); i > 0; --i) {
      step::SequenceAttach attach{.slot = small(),
                                  .sequence = word(),
                                  .tokens = tokens(0, 300),
                                  .prompt_tokens = 0,
                                  .choice = small(),
                                  .sampling = sampling(),
                                  .masked_until_min_tokens = tokens(0, step::kMaxStopTokens),
                                  .blocks = words(100)};
      attach.prompt_tokens = below(static_cast<std::uint32_t>(attach.tokens.size() + 1));
      command.attach.push_back(std::move(attach));
    }
    for (std::uint32_t i = below(6); i > 0; --i) {
      command.items.push_back({.slot = small(),
                               .sequence = word(),
                               .start = below(1 << 20),
                               .count = 1 + below(1 << 19),
                               .sample = coin(),
                               .held_blocks = below(100),
                               .blocks = words(100)});
    }
    return command;
  }

  RankReply rank_reply() {
    return {.epoch = Epoch(small()),
            .step = StepId(word()),
            .rank = RankId(below(kMaxRanks)),
            .op = static_cast<RankOp>(1 + below(8)),
            .code = below(16),
            .message = text(100),
            .state_hash = word(),
            .compute_us = word(),
            .collective_us = word(),
            .preparations = word(),
            .allocations = word(),
            .pid = number(),
            .secret = word(),
            .callables_hash = word(),
            .numerics_fingerprint = word()};
  }

  ControlRecord control_record() {
    switch (below(10)) {
      case 0: {
        ReplicaBootstrap record{.common = common(),
                                .replica = ReplicaId(small()),
                                .plan = plan(),
                                .rank_cpus = {},
                                .restart_limit = small(),
                                .restart_window_ms = small()};
        for (std::uint32_t i = below(5); i > 0; --i) {
          record.rank_cpus.push_back(words(8));
        }
        return record;
      }
      case 1: {
        RankBootstrap record{.common = common(),
                             .replica = ReplicaId(small()),
                             .rank = {},
                             .plan = plan(),
                             .cpus = words(8),
                             .region_bytes = {}};
        record.rank = RankId(below(record.plan.tp));
        for (std::uint32_t i = below(5); i > 0; --i) {
          record.region_bytes.emplace_back(text(20), word());
        }
        return record;
      }
      case 2:
        return LoaderBootstrap{.common = common(),
                               .model_path = text(300),
                               .model_config = text(100),
                               .structure_hash = word(),
                               .tp = 1 + below(kMaxRanks),
                               .arena_bytes = word()};
      case 3:
        return EpochSegment{.epoch = Epoch(small()),
                            .segment_bytes = word(),
                            .nonce = word(),
                            .slot_bytes = word()};
      case 4:
        return ChildProgress{.phase = text(30), .done = word(), .total = word()};
      case 5:
        return ChildReady{word()};
      case 6:
        return front_bootstrap();
      case 7:
        return planner_bootstrap();
      case 8:
        return server_plan();
      default:
        return ChildFailed{.code = small(), .message = text(200)};
    }
  }

  AdminRequest admin_request() {
    if (below(3) == 0) {
      const bool fronts = coin();
      return {AdminCommand::kReload, 0, fronts, fronts && coin() ? "/" + text(40) : ""};
    }
    return {static_cast<AdminCommand>(below(5)), below(0x10000)};
  }

  PoisonedRequest poisoned_request() {
    return {.error = text(60),
            .label = text(30),
            .request = RequestId(word()),
            .choice = small(),
            .sampling = sampling(),
            .stop = stop(),
            .prompt_ids = tokens(1, 200),
            .produced_ids = tokens(0, 50)};
  }

  AdminAnswer admin_answer() {
    switch (below(4)) {
      case 0:
        return AdminDone{};
      case 1:
        return AdminRefused{text(kMaxErrorBytes), coin()};
      default:
        return server_status();
    }
  }

  LeaderToFront leader_to_front() {
    switch (below(9)) {
      case 0:
        return Connect{.connection = count(),
                       .peer = text(40),
                       .refusal = text(100),
                       .goes_on = coin(),
                       .waited_ms = below(100'000),
                       .place = coin() ? kNoJournalPlace : below(kMaxJournalPlaces),
                       .received_bytes = word(),
                       .sent_bytes = word(),
                       .resumes = coin(),
                       .left_at = below(kMaxJournalPlaces),
                       .failure = text(100)};
      case 1:
        return Admitted{.key = request_key(), .code = below(16), .message = text(100)};
      case 2:
        return front_events();
      case 3:
        return Report{
            .query = word(), .status = 100 + below(500), .text = text(2000), .last = coin()};
      case 4:
        return Drain{.answers_end = coin()};
      case 5:
        return history();
      case 6:
        return PromptText{.text = text(2000), .last = coin()};
      case 7:
        return RunPrompts{.apply_chat_template = coin(),
                          .max_tokens = 1 + small(),
                          .temperature = coin() ? std::optional(real(0.0F, 2.0F)) : std::nullopt,
                          .is_seeded = coin(),
                          .seed = below(1000)};
      default:
        return Retire{};
    }
  }

  FrontToLeader front_to_leader() {
    switch (below(13)) {
      case 0:
        return Admit{
            .key = request_key(), .route = text(30), .body_bytes = word(), .generates = coin()};
      case 1:
        return Begin{.key = request_key(),
                     .id = text(40),
                     .booked_tokens = word(),
                     .prompts = 1 + below(kMaxFrontPrompts),
                     .stream = coin(),
                     .tokenize_us = small()};
      case 2:
        return PromptPart{.key = request_key(), .ids = tokens(1, 200)};
      case 3:
        return Generate{.key = request_key(),
                        .choices = 1 + below(kMaxFrontChoices),
                        .sampling = sampling(),
                        .stop = stop(),
                        .cache_salt = text(kMaxSaltBytes)};
      case 4:
        return StopChoice{
            .key = request_key(), .prompt = small(), .choice = small(), .position = small()};
      case 5:
        return End{.key = request_key(),
                   .outcome = text(12),
                   .error = text(100),
                   .status = 100 + below(500)};
      case 6:
        return Query{.query = word(), .kind = static_cast<QueryKind>(below(3))};
      case 7:
        return Disconnected{count(), coin()};
      case 8:
        return FrontTimes{.longest_callback_us = word(),
                          .long_callbacks = word(),
                          .longest_lag_us = word(),
                          .log_lines_dropped = word()};
      case 9:
        return AtRest{.connection = count(), .received_bytes = word(), .sent_bytes = word()};
      case 10:
        return PromptsOutput{text(2000)};
      case 11:
        return PromptsEnd{.code = below(16), .message = text(100)};
      default:
        return Released{.connection = count(), .received_bytes = word(), .sent_bytes = word()};
    }
  }

 private:
  std::uint32_t below(std::uint32_t bound) {
    return std::uniform_int_distribution<std::uint32_t>(0, bound - 1)(random_);
  }
  bool coin() { return below(2) == 1; }
  // Every width of integer that MessagePack knows.
  std::uint64_t word() {
    const std::uint64_t value = std::uniform_int_distribution<std::uint64_t>()(random_);
    return value >> below(64);
  }
  std::uint32_t small() { return static_cast<std::uint32_t>(word() & 0x7FFFFFFF); }
  std::int32_t number() {
    const auto value = static_cast<std::int32_t>(small());
    return coin() ? value : -value;
  }
  float real(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }
  std::string text(std::size_t most) {
    std::string value(below(static_cast<std::uint32_t>(most) + 1), ' ');
    std::generate(value.begin(), value.end(), [this] { return static_cast<char>(below(256)); });
    return value;
  }
  std::vector<TokenId> tokens(std::size_t least, std::size_t most) {
    std::vector<TokenId> values(least + below(static_cast<std::uint32_t>(most - least) + 1));
    std::generate(values.begin(), values.end(), [this] { return static_cast<TokenId>(small()); });
    return values;
  }
  std::vector<TokenId> sorted_tokens(std::size_t most) {
    std::vector<TokenId> values = tokens(0, most);
    std::sort(values.begin(), values.end());
    return values;
  }
  std::vector<std::uint32_t> words(std::size_t most) {
    std::vector<std::uint32_t> values(below(static_cast<std::uint32_t>(most) + 1));
    std::generate(
        values.begin(), values.end(), [this] { return static_cast<std::uint32_t>(word()); });
    return values;
  }
  ReplicaHolding holding() {
    ReplicaHolding holding{.effects = word(), .after = key(), .to_end = coin(), .keys = {}};
    holding.keys.resize((holding.to_end ? 0U : 1U) + below(20));
    std::generate(holding.keys.begin(), holding.keys.end(), [this] { return key(); });
    std::sort(holding.keys.begin(), holding.keys.end());
    return holding;
  }
  std::vector<std::uint64_t> hashes() {
    std::vector<std::uint64_t> values(below(20));
    std::generate(values.begin(), values.end(), [this] { return word(); });
    return values;
  }
  std::uint64_t count() { return std::max<std::uint64_t>(word(), 1); }
  RequestKey request_key() { return {count(), 1 + small()}; }
  SequenceKey key() { return {RequestId(word()), ChoiceIndex(small()), Attempt(small())}; }

  step::SamplingParams sampling() {
    step::SamplingParams params{{.temperature = real(0.0F, 2.0F),
                                 .top_k = static_cast<std::int32_t>(small()),
                                 .top_p = real(0.1F, 1.0F),
                                 .min_p = real(0.0F, 1.0F),
                                 .repetition_penalty = real(0.5F, 2.0F),
                                 .presence_penalty = real(-2.0F, 2.0F),
                                 .frequency_penalty = real(-2.0F, 2.0F),
                                 .seed = word(),
                                 .top_logprobs = static_cast<std::int32_t>(below(22)) - 1,
                                 .min_tokens = small()},
                                {}};
    TokenId token = 0;
    for (std::uint32_t i = below(5); i > 0; --i) {
      token += 1 + static_cast<TokenId>(below(1000));
      params.logit_bias.emplace_back(token, real(-100.0F, 100.0F));
    }
    return params;
  }

  step::StopParams stop() {
    return {.max_tokens = 1 + small(),
            .stop_token_ids = sorted_tokens(step::kMaxStopTokens),
            .ignore_eos = coin()};
  }

  TokenBatch batch() {
    TokenBatch value{.step = StepId(word()), .updates = {}};
    for (std::uint32_t i = below(6); i > 0; --i) {
      TokenUpdate update{.key = key(),
                         .position = small(),
                         .has_token = coin(),
                         .token = static_cast<TokenId>(small()),
                         .logprob = coin() ? std::optional(real(-20.0F, 0.0F)) : std::nullopt,
                         .top_logprobs = {},
                         .to_compute = small(),
                         .to_generate = small(),
                         .cached_tokens = small(),
                         .queue_us = small(),
                         .prefill_us = small(),
                         .finish = static_cast<step::FinishReason>(below(5)),
                         .error_code = 1 + below(15),
                         .error_message = text(40)};
      update.top_logprobs = top_logprobs();
      value.updates.push_back(std::move(update));
    }
    return value;
  }

  std::vector<step::TokenLogprob> top_logprobs() {
    std::vector<step::TokenLogprob> values(below(step::kMaxTopLogprobs + 1));
    for (step::TokenLogprob& value : values) {
      value = {static_cast<TokenId>(small()), real(-20.0F, 0.0F)};
    }
    return values;
  }

  History history() {
    History value{.key = request_key(), .marks = words(100), .cached_tokens = words(5)};
    value.tokens = tokens(value.marks.size(), value.marks.size());
    return value;
  }

  FrontEvents front_events() {
    FrontEvents value;
    for (std::uint32_t i = below(6); i > 0; --i) {
      value.events.push_back({.key = request_key(),
                              .prompt = small(),
                              .choice = small(),
                              .position = small(),
                              .token = static_cast<TokenId>(small()),
                              .logprob = coin() ? std::optional(real(-20.0F, 0.0F)) : std::nullopt,
                              .top_logprobs = top_logprobs(),
                              .cached_tokens = small(),
                              .finish = static_cast<step::FinishReason>(below(5)),
                              .error_code = 1 + below(15),
                              .error_message = text(40)});
    }
    return value;
  }

  ReplicaStatus status() {
    ReplicaStatus value{.epoch = Epoch(small()),
                        .last_step = StepId(word()),
                        .recovering = coin(),
                        .running = small(),
                        .waiting = small(),
                        .kv_blocks_free = small(),
                        .kv_blocks_total = small(),
                        .kv_blocks_cached = small(),
                        .prefix_tokens_asked = word(),
                        .prefix_tokens_found = word(),
                        .preemptions = word(),
                        .step_budget_rows = small(),
                        .drains = word(),
                        .stale_replies = word(),
                        .last_error = text(60),
                        .ranks = {}};
    for (std::uint32_t i = below(5); i > 0; --i) {
      value.ranks.push_back({.state = static_cast<RankState>(below(4)),
                             .pid = number(),
                             .incarnation = Incarnation(small()),
                             .restarts = small(),
                             .last_error = text(30),
                             .preparations = word(),
                             .allocations = word()});
    }
    return value;
  }

  ShownSlot slot() {
    return {.state = text(20),
            .pid = number(),
            .incarnation = Incarnation(small()),
            .restarts = small(),
            .last_error = text(60)};
  }

  ServerStatus server_status() {
    ServerStatus value{.version = text(20),
                       .model = text(kMaxNameBytes),
                       .state = text(20),
                       .pid = number(),
                       .requests = word(),
                       .requests_waiting = word(),
                       .requests_finished = word(),
                       .redispatches = word(),
                       .fronts = {},
                       .replicas = {}};
    for (std::uint32_t i = below(3); i > 0; --i) {
      value.fronts.push_back({.slot = slot(), .active = coin(), .connections = word()});
    }
    for (std::uint32_t i = below(3); i > 0; --i) {
      value.replicas.push_back({.slot = slot(),
                                .report = status(),
                                .to_compute = word(),
                                .to_generate = word(),
                                .recount_to_compute = word(),
                                .recount_to_generate = word(),
                                .open_attempts = word(),
                                .wrapper = {text(30)},
                                .rank_wrappers = {{text(10)}, {""}}});
    }
    return value;
  }

  ChildCommon common() {
    return {.protocol = small(),
            .boot = Boot(word()),
            .incarnation = Incarnation(small()),
            .secret = word(),
            .parent_pid = number(),
            .endpoint = text(60),
            .log_level = text(8)};
  }
  PlannerBootstrap planner_bootstrap() {
    return {.common = common(),
            .model_path = text(300),
            .chat_template_path = text(300),
            .quantization = text(10),
            .isa = text(10),
            .dp = 1 + below(kMaxReplicas),
            .tp = 1 + below(kMaxRanks),
            .limits = plan().limits,
            .kv_memory_bytes = word()};
  }

  ServerPlan server_plan() {
    ServerPlan result{.model_config = text(100),
                      .structure_hash = word(),
                      .model_name = text(50),
                      .model_summary = text(100),
                      .weight_summary = text(100),
                      .isa = text(10),
                      .limits = plan().limits,
                      .vocab = small(),
                      .default_sampling = sampling(),
                      .end_tokens = sorted_tokens(step::kMaxEndTokens),
                      .tokenizer_bytes = 1 + below(1U << 20),
                      .file_bytes = word(),
                      .weight_bytes = word(),
                      .rank_bytes = word(),
                      .memory = {}};
    for (std::uint32_t i = below(5); i > 0; --i) {
      result.memory.emplace_back(text(20), word());
    }
    return result;
  }

  FrontBootstrap front_bootstrap() {
    return {.common = common(),
            .front = small(),
            .model_name = text(30),
            .model_root = text(100),
            .created = number(),
            .max_model_len = small(),
            .vocab = small(),
            .default_sampling = sampling(),
            .end_tokens = sorted_tokens(step::kMaxEndTokens),
            .tokenizer_bytes = word(),
            .on_loopback = coin(),
            .max_body_bytes = word(),
            .stream_buffer_bytes = word(),
            .client_memory_bytes = word(),
            .comment_ms = small(),
            .allowed_hosts = text(200),
            .allowed_origins = text(200),
            .strict_api = coin(),
            .max_queued_reqs = small(),
            .journal_bytes = word(),
            .journal_places = below(kMaxJournalPlaces)};
  }
  ModelPlan plan() {
    return {.model_config = text(100),
            .runner = coin() ? step::Runner::kCpu : step::Runner::kSim,
            .isa = text(8),
            .tp = 1 + below(kMaxRanks),
            .limits = {.max_model_len = small(),
                       .max_num_seqs = small(),
                       .max_num_batched_tokens = small(),
                       .kv_blocks = small(),
                       .kv_format = below(2) == 0 ? step::KvFormat::kBf16 : step::KvFormat::kInt8},
            .sim_step_us = word(),
            .sim_token_us = word()};
  }

  std::mt19937 random_;
};

}  // namespace phalanx::wire
