// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/limits.h"

#include "archive.h"
#include "checker.h"
#include "schema_sampling.h"
#include "schema_status.h"

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
  archive.words("prompt_ids", message.prompt_ids, step::kMaxPromptTokens);
  archive.words("produced_ids", message.produced_ids, step::kMaxPromptTokens);
  archive.structure("sampling", message.sampling);
  archive.structure("stop", message.stop);
  archive.text("cache_salt", message.cache_salt, kMaxSaltBytes);
  archive.require(!message.prompt_ids.empty(), "prompt_ids", "at least one token");
}

template <typename Archive, Like<Cancel> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
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
  archive.number("memory_bytes", message.memory_bytes);
}

template <typename Archive, Like<TokenUpdate> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
  archive.number("position", message.position);
  archive.boolean("has_token", message.has_token);
  archive.number("token", message.token, 0, std::numeric_limits<TokenId>::max());
  archive.optional_real("logprob", message.logprob);
  archive.id_values("top_logprobs", message.top_logprobs, step::kMaxTopLogprobs);
  archive.number("to_compute", message.to_compute);
  archive.number("to_generate", message.to_generate);
  archive.number("cached_tokens", message.cached_tokens);
  archive.number("queue_us", message.queue_us);
  archive.number("prefill_us", message.prefill_us);
  archive.choice("finish", message.finish, step::FinishReason::kNone, step::FinishReason::kError);
  archive.number("error_code", message.error_code);
  archive.text("error_message", message.error_message, kMaxErrorBytes);
  archive.require(message.finish != step::FinishReason::kError || message.error_code != 0,
                  "error_code",
                  "the code of the error that the sequence ends with");
}

template <typename Archive, Like<TokenBatch> Message>
void fields(Archive& archive, Message& message) {
  archive.id("step", message.step);
  archive.list("updates", message.updates, step::kMaxSequencesPerStep);
}

template <typename Archive, Like<ReplicaFailed> Message>
void fields(Archive& archive, Message& message) {
  archive.number("code", message.code);
  archive.text("message", message.message, kMaxErrorBytes);
}

template <typename Archive, Like<ReplicaHolding> Message>
void fields(Archive& archive, Message& message) {
  archive.number("effects", message.effects);
  archive.structure("after", message.after);
  archive.boolean("to_end", message.to_end);
  archive.list("keys", message.keys, kMaxHeldKeys);
  archive.require(std::is_sorted(message.keys.begin(), message.keys.end()) &&
                      (message.to_end || !message.keys.empty()),
                  "keys",
                  "ascending keys, at least one unless they reach to the end");
}

template <typename Archive, Like<PrefixChanges> Message>
void fields(Archive& archive, Message& message) {
  archive.boolean("cleared", message.cleared);
  archive.words("published", message.published, kMaxPrefixChanges);
  archive.words("evicted", message.evicted, kMaxPrefixChanges);
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
Status check(const LeaderFrame& frame) {
  return Checker::check("leader_frame", frame);
}
Status check(const ReplicaFrame& frame) {
  return Checker::check("replica_frame", frame);
}
Status check(const step::SamplingParams& sampling) {
  return Checker::check("sampling", sampling);
}
Status check(const step::StopParams& stop) {
  return Checker::check("stop", stop);
}
Result<LeaderFrame> decode_leader_frame(std::string_view bytes) {
  return Reader::decode<LeaderFrame>("leader_frame", bytes);
}
Result<ReplicaFrame> decode_replica_frame(std::string_view bytes) {
  return Reader::decode<ReplicaFrame>("replica_frame", bytes);
}

// ---- frames that do not decode

namespace {

using Tape = std::vector<TapeItem>;

// Where the object at `start` ends: behind its last element, or at the end of the tape.
std::size_t end_of(const Tape& tape, std::size_t start) {
  std::size_t open = 1;
  std::size_t position = start;
  while (open > 0 && position < tape.size()) {
    const TapeItem& item = tape[position++];
    open += item.kind == TapeItem::Kind::kArray ? item.size : 0;
    --open;
  }
  return position;
}

Tape object_at(const Tape& tape, std::size_t start) {
  const auto first = tape.begin() + static_cast<std::ptrdiff_t>(start);
  return {first, tape.begin() + static_cast<std::ptrdiff_t>(end_of(tape, start))};
}

bool is_number(const Tape& tape, std::size_t position) {
  return position < tape.size() && tape[position].kind == TapeItem::Kind::kUnsigned;
}
bool is_array(const Tape& tape, std::size_t position) {
  return position < tape.size() && tape[position].kind == TapeItem::Kind::kArray;
}

// Both frames are [boot, incarnation, [kind, [fields …]]].
enum Place : std::size_t { kBoot = 1, kIncarnation = 2, kKind = 4, kBody = 5, kFirstField = 6 };

// The body of a frame of that kind begins where it should.
bool has_envelope(const Tape& tape, std::uint64_t kind) {
  return is_array(tape, 0) && is_number(tape, kBoot) && is_number(tape, kIncarnation) &&
         tape[kIncarnation].number <= std::numeric_limits<std::uint32_t>::max() &&
         is_array(tape, kIncarnation + 1) && is_number(tape, kKind) && tape[kKind].number == kind &&
         is_array(tape, kBody);
}

// A key that begins at `position`.
Result<SequenceKey> key_at(const Tape& tape, std::size_t position) {
  if (!is_array(tape, position)) {
    return invalid_argument("key: expected an array");
  }
  return Reader::decode<SequenceKey>("key", object_at(tape, position));
}

TokenUpdate error_update(const SequenceKey& key, const Error& error) {
  TokenUpdate update;
  update.key = key;
  update.finish = step::FinishReason::kError;
  update.error_code = static_cast<std::uint32_t>(Code::kDataLoss);
  update.error_message = "the replica sent an update that cannot be read: " + error.message();
  return update;
}

}  // namespace

std::optional<RefusedSubmit> read_refused_submit(std::string_view bytes) {
  constexpr std::uint64_t kSubmitKind = 1;  // kinds count from 1
  static_assert(std::is_same_v<std::variant_alternative_t<kSubmitKind - 1, LeaderMessage>, Submit>);
  const Result<Tape> tape = read_tape(bytes);
  if (!tape || !has_envelope(*tape, kSubmitKind)) {
    return std::nullopt;
  }
  const Result<SequenceKey> key = key_at(*tape, kFirstField);
  if (!key) {
    return std::nullopt;
  }
  return RefusedSubmit{Boot((*tape)[kBoot].number),
                       Incarnation(static_cast<std::uint32_t>((*tape)[kIncarnation].number)),
                       *key};
}

Result<SalvagedBatch> salvage_token_batch(std::string_view bytes) {
  constexpr std::uint64_t kTokenBatchKind = 3;
  static_assert(
      std::is_same_v<std::variant_alternative_t<kTokenBatchKind - 1, ReplicaMessage>, TokenBatch>);
  constexpr std::size_t kUpdates = kFirstField + 1;  // behind step
  PHALANX_TRY(const Tape tape, read_tape(bytes));
  if (!has_envelope(tape, kTokenBatchKind) || !is_number(tape, kFirstField) ||
      !is_array(tape, kUpdates) || end_of(tape, 0) != tape.size()) {
    return invalid_argument("replica_frame: expected a token batch");
  }
  SalvagedBatch result;
  result.frame.boot = Boot(tape[kBoot].number);
  result.frame.incarnation = Incarnation(static_cast<std::uint32_t>(tape[kIncarnation].number));
  TokenBatch batch{StepId(tape[kFirstField].number), {}};
  std::size_t position = kUpdates + 1;
  for (std::uint32_t i = 0; i < tape[kUpdates].size; ++i) {
    if (!is_array(tape, position)) {
      return invalid_argument("replica_frame.message.updates: expected arrays");
    }
    Result<TokenUpdate> update = Reader::decode<TokenUpdate>("update", object_at(tape, position));
    if (!update) {
      PHALANX_TRY(const SequenceKey key, key_at(tape, position + 1));
      update = error_update(key, update.error());
      result.refused.push_back(key);
    }
    batch.updates.push_back(*std::move(update));
    position = end_of(tape, position);
  }
  result.frame.message = std::move(batch);
  return result;
}

}  // namespace phalanx::wire
