// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/item.h"
#include "phalanx/step/limits.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/limits.h"

#include "archive.h"
#include "checker.h"
#include "schema_sampling.h"

namespace phalanx::wire {

std::string_view name_of(RankOp op) {
  switch (op) {
    case RankOp::kHello:
      return "hello";
    case RankOp::kInit:
      return "init";
    case RankOp::kSanity:
      return "sanity";
    case RankOp::kAttach:
      return "attach";
    case RankOp::kStep:
      return "step";
    case RankOp::kClear:
      return "clear";
    case RankOp::kPing:
      return "ping";
    case RankOp::kShutdown:
      return "shutdown";
  }
  return "unknown";
}

template <typename Archive, Like<step::SequenceAttach> Message>
void fields(Archive& archive, Message& message) {
  archive.number("slot", message.slot);
  archive.number("sequence", message.sequence);
  archive.words("tokens", message.tokens, step::kMaxPromptTokens);
  archive.number("prompt_tokens", message.prompt_tokens);
  archive.number("choice", message.choice);
  archive.structure("sampling", message.sampling);
  archive.words("masked_until_min_tokens", message.masked_until_min_tokens, step::kMaxStopTokens);
  archive.words("blocks", message.blocks, step::kMaxBlocksPerSequence);
  archive.require(message.prompt_tokens <= message.tokens.size(),
                  "prompt_tokens",
                  "at most the number of tokens");
}

template <typename Archive, Like<step::StepItem> Message>
void fields(Archive& archive, Message& message) {
  archive.number("slot", message.slot);
  archive.number("sequence", message.sequence);
  archive.number("start", message.start, 0, static_cast<std::uint32_t>(step::kMaxPromptTokens));
  archive.number("count", message.count, 1, static_cast<std::uint32_t>(step::kMaxPromptTokens));
  archive.boolean("sample", message.sample);
  archive.number("held_blocks",
                 message.held_blocks,
                 0,
                 static_cast<std::uint32_t>(step::kMaxBlocksPerSequence));
  archive.words("blocks", message.blocks, step::kMaxBlocksPerSequence);
}

template <typename Archive, Like<RankCommand> Message>
void fields(Archive& archive, Message& message) {
  archive.id("epoch", message.epoch);
  archive.id("step", message.step);
  archive.choice("op", message.op, RankOp::kHello, RankOp::kShutdown);
  archive.list("attach", message.attach, step::kMaxSequencesPerStep);
  archive.words("detach", message.detach, step::kMaxSequencesPerStep);
  archive.list("items", message.items, step::kMaxSequencesPerStep);
  archive.boolean("zero_kv", message.zero_kv);
}

template <typename Archive, Like<RankReply> Message>
void fields(Archive& archive, Message& message) {
  archive.id("epoch", message.epoch);
  archive.id("step", message.step);
  archive.id("rank", message.rank);
  archive.choice("op", message.op, RankOp::kHello, RankOp::kShutdown);
  archive.number("code", message.code);
  archive.text("message", message.message, kMaxErrorBytes);
  archive.number("state_hash", message.state_hash);
  archive.number("compute_us", message.compute_us);
  archive.number("collective_us", message.collective_us);
  archive.number("preparations", message.preparations);
  archive.number("allocations", message.allocations);
  archive.number("pid", message.pid);
  archive.number("secret", message.secret);
  archive.number("callables_hash", message.callables_hash);
  archive.number("numerics_fingerprint", message.numerics_fingerprint);
  archive.require(message.rank.value() < kMaxRanks, "rank", "a rank below kMaxRanks");
}

std::string encode(const RankCommand& command) {
  return Writer::encode(command);
}
std::string encode(const RankReply& reply) {
  return Writer::encode(reply);
}
Status check(const RankCommand& command) {
  return Checker::check("rank_command", command);
}
Status check(const RankReply& reply) {
  return Checker::check("rank_reply", reply);
}
Result<RankCommand> decode_rank_command(std::string_view bytes) {
  return Reader::decode<RankCommand>("rank_command", bytes);
}
Result<RankReply> decode_rank_reply(std::string_view bytes) {
  return Reader::decode<RankReply>("rank_reply", bytes);
}

}  // namespace phalanx::wire
