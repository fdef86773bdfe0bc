// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/limits.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/front_journal.h"
#include "phalanx/wire/limits.h"

#include "archive.h"
#include "checker.h"
#include "schema_sampling.h"

namespace phalanx::wire {
template <typename Archive, Like<ChildCommon> Message>
void fields(Archive& archive, Message& message) {
  archive.number("protocol", message.protocol);
  archive.id("boot", message.boot);
  archive.id("incarnation", message.incarnation);
  archive.number("secret", message.secret);
  archive.number("parent_pid", message.parent_pid);
  archive.text("endpoint", message.endpoint, kMaxNameBytes);
  archive.text("log_level", message.log_level, kMaxNameBytes);
}

// In a row with the fields of whatever has them.
template <typename Archive, Like<step::RankLimits> Limits>
void limit_fields(Archive& archive, Limits& limits) {
  archive.number("max_model_len", limits.max_model_len);
  archive.number("max_num_seqs", limits.max_num_seqs);
  archive.number("max_num_batched_tokens", limits.max_num_batched_tokens);
  archive.number("kv_blocks", limits.kv_blocks);
  archive.choice("kv_format", limits.kv_format, step::KvFormat::kBf16, step::KvFormat::kInt8);
}

template <typename Archive, Like<ModelPlan> Message>
void fields(Archive& archive, Message& message) {
  archive.text("model_config", message.model_config, kMaxConfigBytes);
  archive.choice("runner", message.runner, step::Runner::kCpu, step::Runner::kSim);
  archive.text("isa", message.isa, kMaxNameBytes);
  archive.number("tp", message.tp, 1, kMaxRanks);
  limit_fields(archive, message.limits);
  archive.number("sim_step_us", message.sim_step_us);
  archive.number("sim_token_us", message.sim_token_us);
}

template <typename Archive, Like<ReplicaBootstrap> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("common", message.common);
  archive.id("replica", message.replica);
  archive.structure("plan", message.plan);
  archive.word_lists("rank_cpus", message.rank_cpus, kMaxRanks, kMaxCpus);
  archive.number("restart_limit", message.restart_limit);
  archive.number("restart_window_ms", message.restart_window_ms);
  archive.boolean("prefix_cache", message.prefix_cache);
  archive.number("max_step_ms", message.max_step_ms);
}

using NamedRegion = std::pair<std::string, std::uint64_t>;

template <typename Archive, Like<NamedRegion> Message>
void fields(Archive& archive, Message& message) {
  archive.text("name", message.first, kMaxNameBytes);
  archive.number("bytes", message.second);
}

template <typename Archive, Like<RankBootstrap> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("common", message.common);
  archive.id("replica", message.replica);
  archive.id("rank", message.rank);
  archive.structure("plan", message.plan);
  archive.words("cpus", message.cpus, kMaxCpus);
  archive.list("region_bytes", message.region_bytes, kMaxRegions);
  archive.require(message.rank.value() < message.plan.tp, "rank", "a rank below plan.tp");
}

template <typename Archive, Like<LoaderBootstrap> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("common", message.common);
  archive.text("model_path", message.model_path, kMaxPathBytes);
  archive.text("model_config", message.model_config, kMaxConfigBytes);
  archive.number("structure_hash", message.structure_hash);
  archive.number("tp", message.tp, 1, kMaxRanks);
  archive.number("arena_bytes", message.arena_bytes);
}

template <typename Archive, Like<FrontBootstrap> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("common", message.common);
  archive.number("front", message.front);
  archive.text("model_name", message.model_name, kMaxNameBytes);
  archive.text("model_root", message.model_root, kMaxPathBytes);
  archive.number("created", message.created);
  archive.number("max_model_len", message.max_model_len);
  archive.number("vocab", message.vocab);
  archive.structure("default_sampling", message.default_sampling);
  archive.words("end_tokens", message.end_tokens, step::kMaxEndTokens);
  archive.number("tokenizer_bytes", message.tokenizer_bytes);
  archive.boolean("on_loopback", message.on_loopback);
  archive.number("max_body_bytes", message.max_body_bytes);
  archive.number("stream_buffer_bytes", message.stream_buffer_bytes);
  archive.number("client_memory_bytes", message.client_memory_bytes);
  archive.number("comment_ms", message.comment_ms);
  archive.text("allowed_hosts", message.allowed_hosts, kMaxListBytes);
  archive.text("allowed_origins", message.allowed_origins, kMaxListBytes);
  archive.boolean("strict_api", message.strict_api);
  archive.number("max_queued_reqs", message.max_queued_reqs);
  archive.number("journal_bytes", message.journal_bytes);
  archive.number("journal_places", message.journal_places, 0, kMaxJournalPlaces);
  archive.require(std::is_sorted(message.end_tokens.begin(), message.end_tokens.end()),
                  "end_tokens",
                  "ascending token ids");
}

template <typename Archive, Like<PlannerBootstrap> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("common", message.common);
  archive.text("model_path", message.model_path, kMaxPathBytes);
  archive.text("chat_template_path", message.chat_template_path, kMaxPathBytes);
  archive.text("quantization", message.quantization, kMaxNameBytes);
  archive.text("isa", message.isa, kMaxNameBytes);
  archive.number("dp", message.dp, 1, kMaxReplicas);
  archive.number("tp", message.tp, 1, kMaxRanks);
  limit_fields(archive, message.limits);
  archive.number("kv_memory_bytes", message.kv_memory_bytes);
}

template <typename Archive, Like<ServerPlan> Message>
void fields(Archive& archive, Message& message) {
  archive.text("model_config", message.model_config, kMaxConfigBytes);
  archive.number("structure_hash", message.structure_hash);
  archive.text("model_name", message.model_name, kMaxNameBytes);
  archive.text("model_summary", message.model_summary, kMaxNameBytes);
  archive.text("weight_summary", message.weight_summary, kMaxNameBytes);
  archive.text("isa", message.isa, kMaxNameBytes);
  limit_fields(archive, message.limits);
  archive.number("vocab", message.vocab);
  archive.structure("default_sampling", message.default_sampling);
  archive.words("end_tokens", message.end_tokens, step::kMaxEndTokens);
  archive.number("tokenizer_bytes", message.tokenizer_bytes, 1);
  archive.number("file_bytes", message.file_bytes);
  archive.number("weight_bytes", message.weight_bytes);
  archive.number("rank_bytes", message.rank_bytes);
  archive.list("memory", message.memory, kMaxRegions);
  archive.require(std::is_sorted(message.end_tokens.begin(), message.end_tokens.end()),
                  "end_tokens",
                  "ascending token ids");
}

template <typename Archive, Like<EpochSegment> Message>
void fields(Archive& archive, Message& message) {
  archive.id("epoch", message.epoch);
  archive.number("segment_bytes", message.segment_bytes);
  archive.number("nonce", message.nonce);
  archive.number("slot_bytes", message.slot_bytes);
}

template <typename Archive, Like<ChildProgress> Message>
void fields(Archive& archive, Message& message) {
  archive.text("phase", message.phase, kMaxNameBytes);
  archive.number("done", message.done);
  archive.number("total", message.total);
}

// Its field also tells it from the records of a front, of which the one of this kind has none.
template <typename Archive, Like<ChildReady> Message>
void fields(Archive& archive, Message& message) {
  archive.number("value", message.value);
}

template <typename Archive, Like<ChildFailed> Message>
void fields(Archive& archive, Message& message) {
  archive.number("code", message.code);
  archive.text("message", message.message, kMaxErrorBytes);
}

std::string encode(const ControlRecord& record) {
  return Writer::encode(RecordFrame<const ControlRecord&>{record});
}

Status check(const ControlRecord& record) {
  return Checker::check("control_record", RecordFrame<const ControlRecord&>{record});
}

Result<ControlRecord> decode_control_record(std::string_view bytes) {
  PHALANX_TRY(auto frame, Reader::decode<RecordFrame<ControlRecord>>("control_record", bytes));
  return std::move(frame.record);
}

}  // namespace phalanx::wire
