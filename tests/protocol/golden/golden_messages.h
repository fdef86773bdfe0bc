// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/step/item.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/front_journal.h"
#include "phalanx/wire/limits.h"

namespace phalanx::wire {

// A message whose bytes are kept in proto/golden/v15/<name>.bin.
struct Golden {
  std::string name;
  std::string bytes;                              // as encoded by this build
  std::function<bool(std::string_view)> decodes;  // to the same message
};

template <typename Message, typename Decode>
Golden golden(std::string name, const Message& message, Decode decode) {
  return {
      .name = std::move(name), .bytes = encode(message), .decodes = [=](std::string_view bytes) {
        const auto decoded = decode(bytes);
        return decoded && *decoded == message;
      }};
}

inline const SequenceKey kGoldenKey{RequestId(1001), ChoiceIndex(0), Attempt(2)};

inline step::SamplingParams golden_sampling() {
  return {{.temperature = 0.75F,
           .top_k = 40,
           .top_p = 0.9F,
           .min_p = 0.05F,
           .repetition_penalty = 1.1F,
           .presence_penalty = -0.5F,
           .frequency_penalty = 0.25F,
           .seed = 0x0123456789ABCDEFULL,
           .top_logprobs = 5,
           .min_tokens = 2},
          {{3, -100.0F}, {250, 1.5F}}};
}

inline std::vector<Golden> golden_leader_frames() {
  const auto frame = [](LeaderMessage message) {
    return LeaderFrame{Boot(0xB007), Incarnation(3), std::move(message)};
  };
  return {
      golden("leader_submit",
             frame(Submit{
                 .key = kGoldenKey,
                 .prompt_ids = {1, 2, 65536, 151935},
                 .produced_ids = {7, 8},
                 .sampling = golden_sampling(),
                 .stop = {.max_tokens = 128, .stop_token_ids = {0, 151645}, .ignore_eos = true},
                 .cache_salt = "tenant 7"}),
             decode_leader_frame),
      golden("leader_cancel", frame(Cancel{kGoldenKey}), decode_leader_frame),
      golden("leader_stop",
             frame(StopReplica{.drain = true, .deadline_ms = 30'000}),
             decode_leader_frame),
  };
}

inline std::vector<Golden> golden_replica_frames() {
  const auto frame = [](ReplicaMessage message) {
    return ReplicaFrame{Boot(0xB007), Incarnation(3), std::move(message)};
  };
  const TokenUpdate token{.key = kGoldenKey,
                          .position = 17,
                          .has_token = true,
                          .token = 42,
                          .logprob = -0.5F,
                          .top_logprobs = {{42, -0.5F}, {9, -1.25F}},
                          .to_compute = 0,
                          .to_generate = 110,
                          .cached_tokens = 64,
                          .queue_us = 1500,
                          .prefill_us = 70'000,
                          .finish = step::FinishReason::kNone,
                          .error_code = 0,
                          .error_message = {}};
  TokenUpdate failed;
  failed.key = {RequestId(1002), ChoiceIndex(1), Attempt(1)};
  failed.finish = step::FinishReason::kError;
  failed.error_code = static_cast<std::uint32_t>(Code::kDataLoss);
  failed.error_message = "non-finite value in layer 3";
  const RankStatus rank{.state = RankState::kRecovering,
                        .pid = 4242,
                        .incarnation = Incarnation(2),
                        .restarts = 1,
                        .last_error = "killed by signal 9",
                        .preparations = 1,
                        .allocations = 0};
  return {
      golden("replica_hello",
             frame(ReplicaHello{
                 .protocol = kProtocolVersion, .secret = 0xFEEDFACECAFEBEEFULL, .pid = 4200}),
             decode_replica_frame),
      golden("replica_ready",
             frame(ReplicaReady{.epoch = Epoch(4),
                                .numerics_fingerprint = 0x1122334455667788ULL,
                                .kv_blocks = 512,
                                .memory_bytes = 123'456'789}),
             decode_replica_frame),
      golden("replica_token_batch",
             frame(TokenBatch{.step = StepId(900), .updates = {token, failed}}),
             decode_replica_frame),
      golden("replica_status",
             frame(ReplicaStatus{.epoch = Epoch(4),
                                 .last_step = StepId(900),
                                 .recovering = true,
                                 .running = 3,
                                 .waiting = 1,
                                 .kv_blocks_free = 400,
                                 .kv_blocks_total = 512,
                                 .kv_blocks_cached = 37,
                                 .prefix_tokens_asked = 9000,
                                 .prefix_tokens_found = 4096,
                                 .preemptions = 2,
                                 .step_budget_rows = 192,
                                 .drains = 1,
                                 .stale_replies = 1,
                                 .last_error = "tp1: aborted",
                                 .ranks = {rank}}),
             decode_replica_frame),
      golden("replica_failed",
             frame(ReplicaFailed{.code = static_cast<std::uint32_t>(Code::kResourceExhausted),
                                 .message = "no memory for 512 KV blocks"}),
             decode_replica_frame),
      golden("replica_holding",
             frame(ReplicaHolding{.effects = 40,
                                  .after = kGoldenKey,
                                  .to_end = false,
                                  .keys = {{RequestId(1001), ChoiceIndex(1), Attempt(1)},
                                           {RequestId(1002), ChoiceIndex(0), Attempt(1)}}}),
             decode_replica_frame),
      golden("replica_prefix_changes",
             frame(PrefixChanges{.cleared = true,
                                 .published = {0x0123456789ABCDEFULL, 2},
                                 .evicted = {0xFEDCBA9876543210ULL}}),
             decode_replica_frame),
  };
}

inline std::vector<Golden> golden_rank_frames() {
  const step::SequenceAttach attach{.slot = 1,
                                    .sequence = 55,
                                    .tokens = {10, 11, 12, 13},
                                    .prompt_tokens = 3,
                                    .choice = 0,
                                    .sampling = golden_sampling(),
                                    .masked_until_min_tokens = {0, 2},
                                    .blocks = {}};
  const auto command = [](RankOp op) {
    RankCommand value;
    value.epoch = Epoch(4);
    value.step = StepId(901);
    value.op = op;
    return value;
  };
  RankCommand step = command(RankOp::kStep);
  step.attach = {attach};
  step.detach = {6};
  step.items = {{.slot = 1,
                 .sequence = 55,
                 .start = 0,
                 .count = 4,
                 .sample = true,
                 .held_blocks = 0,
                 .blocks = {9}},
                {.slot = 2,
                 .sequence = 40,
                 .start = 64,
                 .count = 1,
                 .sample = false,
                 .held_blocks = 2,
                 .blocks = {300}}};
  RankCommand clear = command(RankOp::kClear);
  clear.zero_kv = true;
  RankReply done{.epoch = Epoch(4),
                 .step = StepId(901),
                 .rank = RankId(1),
                 .op = RankOp::kStep,
                 .code = 0,
                 .message = {},
                 .state_hash = 0xAABBCCDD00112233ULL,
                 .compute_us = 800,
                 .collective_us = 120,
                 .preparations = 1,
                 .allocations = 0,
                 .pid = 0,
                 .secret = 0,
                 .callables_hash = 0,
                 .numerics_fingerprint = 0};
  RankReply hello = done;
  hello.op = RankOp::kHello;
  hello.pid = 4242;
  hello.secret = 0xFEEDFACECAFEBEEFULL;
  hello.callables_hash = 5;
  hello.numerics_fingerprint = 0x1122334455667788ULL;
  RankReply aborted = done;
  aborted.code = static_cast<std::uint32_t>(Code::kAborted);
  aborted.message = "the communicator of epoch 4 was aborted";
  return {
      golden("rank_command_hello", command(RankOp::kHello), decode_rank_command),
      golden("rank_command_step", step, decode_rank_command),
      golden("rank_command_clear", clear, decode_rank_command),
      golden("rank_reply_hello", hello, decode_rank_reply),
      golden("rank_reply_step", done, decode_rank_reply),
      golden("rank_reply_aborted", aborted, decode_rank_reply),
  };
}

inline std::vector<Golden> golden_control_records() {
  const ChildCommon common{.protocol = kProtocolVersion,
                           .boot = Boot(0xB007),
                           .incarnation = Incarnation(3),
                           .secret = 0xFEEDFACECAFEBEEFULL,
                           .parent_pid = 4100,
                           .endpoint = "ipc://@phalanx-00112233445566778899aabbccddeeff",
                           .log_level = "info"};
  const ModelPlan plan{.model_config = "model_type=5:qwen3 layers=2",
                       .runner = step::Runner::kCpu,
                       .isa = "auto",
                       .tp = 2,
                       .limits = {.max_model_len = 2048,
                                  .max_num_seqs = 64,
                                  .max_num_batched_tokens = 512,
                                  .kv_blocks = 512,
                                  .kv_format = step::KvFormat::kInt8},
                       .sim_step_us = 0,
                       .sim_token_us = 0};
  const auto record = [](std::string name, ControlRecord value) {
    return golden(std::move(name), value, decode_control_record);
  };
  return {
      record("control_replica_bootstrap",
             ReplicaBootstrap{.common = common,
                              .replica = ReplicaId(1),
                              .plan = plan,
                              .rank_cpus = {{0, 1}, {2, 3}},
                              .restart_limit = 5,
                              .restart_window_ms = 60'000,
                              .prefix_cache = true,
                              .max_step_ms = 100}),
      record("control_rank_bootstrap",
             RankBootstrap{.common = common,
                           .replica = ReplicaId(1),
                           .rank = RankId(1),
                           .plan = plan,
                           .cpus = {2, 3},
                           .region_bytes = {{"kv", 16'777'216},
                                            {"scratch", 4'194'304},
                                            {"sequence-table", 8'192},
                                            {"result-ring", 4'096},
                                            {"exchange", 65'536}}}),
      record("control_loader_bootstrap",
             LoaderBootstrap{.common = common,
                             .model_path = "deploy/models/phalanx-tiny",
                             .model_config = "model_type=5:qwen3 layers=2",
                             .structure_hash = 0x8877665544332211ULL,
                             .tp = 2,
                             .arena_bytes = 4'194'304}),
      record("control_epoch_segment",
             EpochSegment{.epoch = Epoch(4),
                          .segment_bytes = 528'384,
                          .nonce = 0x99AABBCCDDEEFF00ULL,
                          .slot_bytes = 131'072}),
      record("control_child_progress",
             ChildProgress{.phase = "packing weights", .done = 3, .total = 28}),
      record("control_child_ready", ChildReady{0x1122334455667788ULL}),
      record("control_child_failed",
             ChildFailed{.code = static_cast<std::uint32_t>(Code::kInvalidArgument),
                         .message = "tensor lm_head.weight: expected [256, 64]"}),
      record("control_front_bootstrap",
             FrontBootstrap{.common = common,
                            .front = 1,
                            .model_name = "phalanx-tiny",
                            .model_root = "deploy/models/phalanx-tiny",
                            .created = 1'790'000'000,
                            .max_model_len = 2048,
                            .vocab = 4096,
                            .default_sampling = golden_sampling(),
                            .end_tokens = {0, 2},
                            .tokenizer_bytes = 163'840,
                            .on_loopback = false,
                            .max_body_bytes = 8'388'608,
                            .stream_buffer_bytes = 1'048'576,
                            .client_memory_bytes = 536'870'912,
                            .comment_ms = 10'000,
                            .allowed_hosts = "a.example,b.example:8000",
                            .allowed_origins = "https://chat.example.org",
                            .strict_api = true,
                            .max_queued_reqs = 1024,
                            .journal_bytes = std::uint64_t{2} << 30U,
                            .journal_places = 4'352}),
      record("control_planner_bootstrap",
             PlannerBootstrap{.common = common,
                              .model_path = "deploy/models/phalanx-tiny",
                              .chat_template_path = "chat.jinja",
                              .quantization = "int8-g32",
                              .isa = "auto",
                              .dp = 3,
                              .tp = 2,
                              .limits = {.max_model_len = 2048,
                                         .max_num_seqs = 64,
                                         .max_num_batched_tokens = 512,
                                         .kv_blocks = 0,
                                         .kv_format = step::KvFormat::kInt8},
                              .kv_memory_bytes = 1'073'741'824}),
      record("control_server_plan",
             ServerPlan{.model_config = "model_type=5:qwen3 layers=2",
                        .structure_hash = 0x8877665544332211ULL,
                        .model_name = "phalanx-tiny",
                        .model_summary = "qwen3, 2 layers",
                        .weight_summary = "int8-g32, head bf16",
                        .isa = "avx2",
                        .limits = {.max_model_len = 2048,
                                   .max_num_seqs = 64,
                                   .max_num_batched_tokens = 512,
                                   .kv_blocks = 512,
                                   .kv_format = step::KvFormat::kInt8},
                        .vocab = 4096,
                        .default_sampling = golden_sampling(),
                        .end_tokens = {0, 2},
                        .tokenizer_bytes = 163'840,
                        .file_bytes = 8'388'608,
                        .weight_bytes = 4'194'304,
                        .rank_bytes = 16'777'216,
                        .memory = {{"weights", 4'194'304}, {"total", 104'857'600}}}),
  };
}

inline constexpr RequestKey kGoldenRequest{70'001, 3};

inline std::vector<Golden> golden_records_to_front() {
  const auto record = [](std::string name, LeaderToFront value) {
    return golden(std::move(name), value, decode_leader_to_front);
  };
  const FrontEvent token{.key = kGoldenRequest,
                         .prompt = 1,
                         .choice = 2,
                         .position = 17,
                         .token = 42,
                         .logprob = -0.5F,
                         .top_logprobs = {{42, -0.5F}, {9, -1.25F}},
                         .cached_tokens = 64,
                         .finish = step::FinishReason::kLength,
                         .error_code = 0,
                         .error_message = {}};
  FrontEvent failed;
  failed.key = {70'002, 1};
  failed.finish = step::FinishReason::kError;
  failed.error_code = static_cast<std::uint32_t>(Code::kResourceExhausted);
  failed.error_message = "too many tokens are waiting";
  return {
      record("to_front_connect",
             Connect{.connection = 70'001,
                     .peer = "127.0.0.1:41000",
                     .refusal = {},
                     .goes_on = true,
                     .waited_ms = 61'250,
                     .place = 17,
                     .received_bytes = 812,
                     .sent_bytes = 70'000}),
      record("to_front_connect_resumes",
             Connect{.connection = 70'003,
                     .peer = "127.0.0.1:41002",
                     .place = kNoJournalPlace,
                     .received_bytes = 913,
                     .sent_bytes = 70'001,
                     .resumes = true,
                     .left_at = 4'351,
                     .failure = "the request ended two processes that worked for it"}),
      record(
          "to_front_connect_refused",
          Connect{
              .connection = 70'002, .peer = "127.0.0.1:41001", .refusal = "too many connections"}),
      record("to_front_admitted",
             Admitted{.key = kGoldenRequest,
                      .code = static_cast<std::uint32_t>(Code::kUnavailable),
                      .message = "the server is shutting down"}),
      record("to_front_events", FrontEvents{{token, failed}}),
      record("to_front_report",
             Report{.query = 8, .status = 503, .text = "no replica serves", .last = true}),
      record("to_front_retire", Retire{}),
      record("to_front_history",
             History{.key = kGoldenRequest,
                     .marks = {0, 0x0000'0100, 0x0001'0202},
                     .tokens = {42, 0, 151'935},
                     .cached_tokens = {32}}),
      record("to_front_drain", Drain{.answers_end = true}),
      record("to_front_prompt_text", PromptText{.text = "count from 3", .last = false}),
      record("to_front_run_prompts",
             RunPrompts{.apply_chat_template = true,
                        .max_tokens = 256,
                        .temperature = 0.5F,
                        .is_seeded = true,
                        .seed = 5}),
  };
}

inline std::vector<Golden> golden_records_of_front() {
  const auto record = [](std::string name, FrontToLeader value) {
    return golden(std::move(name), value, decode_front_to_leader);
  };
  return {
      record("front_admit",
             Admit{.key = kGoldenRequest,
                   .route = "/v1/chat/completions",
                   .body_bytes = 12'345,
                   .generates = true}),
      record("front_begin",
             Begin{.key = kGoldenRequest,
                   .id = "req-1f",
                   .booked_tokens = 3000,
                   .prompts = 2,
                   .stream = true,
                   .tokenize_us = 450}),
      record("front_prompt_part", PromptPart{.key = kGoldenRequest, .ids = {1, 2, 65536, 151935}}),
      record(
          "front_generate",
          Generate{.key = kGoldenRequest,
                   .choices = 3,
                   .sampling = golden_sampling(),
                   .stop = {.max_tokens = 128, .stop_token_ids = {0, 151645}, .ignore_eos = true},
                   .cache_salt = "tenant 7"}),
      record("front_stop_choice",
             StopChoice{.key = kGoldenRequest, .prompt = 1, .choice = 2, .position = 17}),
      record("front_end",
             End{.key = kGoldenRequest,
                 .outcome = "refused",
                 .error = "temperature: expected a number from 0 to 2",
                 .status = 400}),
      record("front_query", Query{.query = 8, .kind = QueryKind::kMetrics}),
      record("front_disconnected", Disconnected{70'001, true}),
      record("front_at_rest", AtRest{.connection = 7, .received_bytes = 812, .sent_bytes = 70'000}),
      record("front_released",
             Released{.connection = 7, .received_bytes = 812, .sent_bytes = 70'000}),
      record("front_prompts_output", PromptsOutput{"prompt         count from 3 to 40\n"}),
      record("front_prompts_end",
             PromptsEnd{.code = static_cast<std::uint32_t>(Code::kInvalidArgument),
                        .message = "--prompt gives no token"}),
      record("front_times",
             FrontTimes{.longest_callback_us = 900,
                        .long_callbacks = 2,
                        .longest_lag_us = 1500,
                        .log_lines_dropped = 7}),
  };
}

inline std::vector<Golden> golden_admin_frames() {
  const auto request = [](std::string name, const AdminRequest& value) {
    return golden(std::move(name), value, decode_admin_request);
  };
  const auto answer = [](std::string name, const AdminAnswer& value) {
    return golden(std::move(name), value, decode_admin_answer);
  };
  const ShownFront front{.slot = {.state = "ready",
                                  .pid = 4101,
                                  .incarnation = Incarnation(2),
                                  .restarts = 1,
                                  .last_error = "killed by signal 9 (SIGKILL)"},
                         .active = true,
                         .is_quarantine = false,
                         .connections = 17};
  ReplicaStatus report{.epoch = Epoch(3), .last_step = StepId(70'000)};
  report.ranks = {{.state = RankState::kReady, .pid = 4103, .incarnation = Incarnation(1)}};
  const ShownReplica replica{.slot = {.state = "ready", .pid = 4102, .incarnation = Incarnation(1)},
                             .report = report,
                             .to_compute = 512,
                             .to_generate = 300,
                             .recount_to_compute = 512,
                             .recount_to_generate = 300,
                             .open_attempts = 2,
                             .wrapper = {},
                             .rank_wrappers = {{"valgrind -q"}}};
  return {
      request("admin_status", {AdminCommand::kStatus}),
      request("admin_drain", {AdminCommand::kDrain, 3}),
      request("admin_reload", {AdminCommand::kReload, 0, true, "/opt/phalanx-front"}),
      answer("admin_answer_done", AdminDone{}),
      answer("admin_answer_refused",
             AdminRefused{.message = "there is no replica 3", .for_now = true}),
      answer("admin_answer_status",
             ServerStatus{.version = "0.1.0",
                          .model = "phalanx-tiny",
                          .state = "serving",
                          .pid = 4100,
                          .requests = 2,
                          .requests_waiting = 1,
                          .requests_finished = 40,
                          .redispatches = 5,
                          .fronts = {front},
                          .replicas = {replica}}),
  };
}

inline std::vector<Golden> golden_dumps() {
  const PoisonedRequest request{.error = "rank 1 was killed by signal 11 (SIGSEGV)",
                                .label = "req-1f",
                                .request = RequestId(1001),
                                .choice = 2,
                                .sampling = golden_sampling(),
                                .stop = {.max_tokens = 128, .stop_token_ids = {0, 151645}},
                                .prompt_ids = {1, 2, 65536},
                                .produced_ids = {7}};
  return {golden("dump_poisoned_request", request, decode_poisoned_request)};
}

}  // namespace phalanx::wire
