// SPDX-License-Identifier: Apache-2.0
#include "phalanx/wire/codec.h"
#include "phalanx/wire/limits.h"

#include "archive.h"
#include "schema_sampling.h"

namespace phalanx::wire {

template <typename Archive, Like<SequenceKey> Message>
void fields(Archive& archive, Message& message) {
  archive.id("request", message.request);
  archive.id("choice", message.choice);
  archive.id("attempt", message.attempt);
}

template <typename Archive, Like<Submit> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
  archive.words("prompt_ids", message.prompt_ids, kMaxPromptTokens);
  archive.words("produced_ids", message.produced_ids, kMaxPromptTokens);
  archive.structure("sampling", message.sampling);
  archive.structure("stop", message.stop);
  archive.require(!message.prompt_ids.empty(), "prompt_ids", "at least one token");
}

template <typename Archive, Like<Cancel> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
}

template <typename Archive, Like<LeaderPing> Message>
void fields(Archive& archive, Message& message) {
  archive.number("nonce", message.nonce);
}

template <typename Archive, Like<StopReplica> Message>
void fields(Archive& archive, Message& message) {
  archive.boolean("drain", message.drain);
  archive.number("deadline_ms", message.deadline_ms);
}

template <typename Archive, Like<LeaderFrame> Message>
void fields(Archive& archive, Message& message) {
  archive.id("boot", message.boot);
  archive.id("incarnation", message.incarnation);
  archive.variant("message", message.message);
}

template <typename Archive, Like<ReplicaHello> Message>
void fields(Archive& archive, Message& message) {
  archive.number("protocol", message.protocol);
  archive.number("secret", message.secret);
  archive.number("pid", message.pid);
}

template <typename Archive, Like<ReplicaReady> Message>
void fields(Archive& archive, Message& message) {
  archive.id("epoch", message.epoch);
  archive.number("numerics_fingerprint", message.numerics_fingerprint);
  archive.number("kv_blocks", message.kv_blocks);
  archive.number("kv_block_tokens", message.kv_block_tokens);
  archive.number("memory_bytes", message.memory_bytes);
}

template <typename Archive, Like<TokenUpdate> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
  archive.number("position", message.position);
  archive.boolean("has_token", message.has_token);
  archive.number("token", message.token, 0, std::numeric_limits<TokenId>::max());
  archive.optional_real("logprob", message.logprob);
  archive.id_values("top_logprobs", message.top_logprobs, kMaxTopLogprobs);
  archive.number("to_compute", message.to_compute);
  archive.number("to_generate", message.to_generate);
  archive.choice("finish", message.finish, FinishReason::kNone, FinishReason::kError);
  archive.number("error_code", message.error_code);
  archive.text("error_message", message.error_message, kMaxErrorBytes);
}

template <typename Archive, Like<TokenBatch> Message>
void fields(Archive& archive, Message& message) {
  archive.id("step", message.step);
  archive.number("step_us", message.step_us);
  archive.list("updates", message.updates, kMaxSequencesPerStep);
}

template <typename Archive, Like<RankStatus> Message>
void fields(Archive& archive, Message& message) {
  archive.choice("state", message.state, RankState::kStarting, RankState::kDead);
  archive.number("pid", message.pid);
  archive.id("incarnation", message.incarnation);
  archive.number("restarts", message.restarts);
  archive.text("last_error", message.last_error, kMaxErrorBytes);
  archive.number("preparations", message.preparations);
  archive.number("allocations", message.allocations);
}

template <typename Archive, Like<ReplicaStatus> Message>
void fields(Archive& archive, Message& message) {
  archive.number("sequence", message.sequence);
  archive.number("last_nonce", message.last_nonce);
  archive.id("epoch", message.epoch);
  archive.id("last_step", message.last_step);
  archive.boolean("recovering", message.recovering);
  archive.number("running", message.running);
  archive.number("waiting", message.waiting);
  archive.number("to_compute", message.to_compute);
  archive.number("to_generate", message.to_generate);
  archive.number("kv_blocks_free", message.kv_blocks_free);
  archive.number("kv_blocks_total", message.kv_blocks_total);
  archive.number("preemptions", message.preemptions);
  archive.number("drains", message.drains);
  archive.number("stale_replies", message.stale_replies);
  archive.text("last_error", message.last_error, kMaxErrorBytes);
  archive.list("ranks", message.ranks, kMaxRanks);
}

template <typename Archive, Like<ReplicaFailed> Message>
void fields(Archive& archive, Message& message) {
  archive.number("code", message.code);
  archive.text("message", message.message, kMaxErrorBytes);
}

template <typename Archive, Like<ReplicaFrame> Message>
void fields(Archive& archive, Message& message) {
  archive.id("boot", message.boot);
  archive.id("incarnation", message.incarnation);
  archive.variant("message", message.message);
}

std::string encode(const LeaderFrame& frame) {
  return Writer::encode(frame);
}
std::string encode(const ReplicaFrame& frame) {
  return Writer::encode(frame);
}
Result<LeaderFrame> decode_leader_frame(std::string_view bytes) {
  return Reader::decode<LeaderFrame>("leader_frame", bytes);
}
Result<ReplicaFrame> decode_replica_frame(std::string_view bytes) {
  return Reader::decode<ReplicaFrame>("replica_frame", bytes);
}

}  // namespace phalanx::wire
