// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/front_journal.h"
#include "phalanx/wire/limits.h"

#include "archive.h"
#include "checker.h"
#include "schema_sampling.h"

namespace phalanx::wire {

namespace {

template <typename Archive, typename Connection>
void connection_number(Archive& archive, Connection& connection) {
  archive.number("connection", connection, 1, std::numeric_limits<std::uint64_t>::max());
}

template <typename Archive, typename HttpStatus>
void http_status(Archive& archive, HttpStatus& status) {
  archive.number("status", status, 100, 599);
}

}  // namespace

template <typename Archive, Like<RequestKey> Message>
void fields(Archive& archive, Message& message) {
  connection_number(archive, message.connection);
  archive.number("ordinal", message.ordinal, 1, std::numeric_limits<std::uint32_t>::max());
}

// ---- leader → front

template <typename Archive, Like<Connect> Message>
void fields(Archive& archive, Message& message) {
  connection_number(archive, message.connection);
  archive.text("peer", message.peer, kMaxNameBytes);
  archive.text("refusal", message.refusal, kMaxErrorBytes);
  archive.boolean("goes_on", message.goes_on);
  archive.number("waited_ms", message.waited_ms);
  archive.number("place", message.place);
  archive.number("received_bytes", message.received_bytes);
  archive.number("sent_bytes", message.sent_bytes);
  archive.boolean("resumes", message.resumes);
  archive.number("left_at", message.left_at, 0, kMaxJournalPlaces - 1);
  archive.text("failure", message.failure, kMaxErrorBytes);
  archive.require(message.place < kMaxJournalPlaces || message.place == kNoJournalPlace,
                  "place",
                  "a place of a journal, or none");
}

template <typename Archive, Like<Admitted> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
  archive.number("code", message.code);
  archive.text("message", message.message, kMaxErrorBytes);
}

template <typename Archive, Like<FrontEvent> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
  archive.number("prompt", message.prompt);
  archive.number("choice", message.choice);
  archive.number("position", message.position);
  archive.number("token", message.token, 0, std::numeric_limits<TokenId>::max());
  archive.optional_real("logprob", message.logprob);
  archive.id_values("top_logprobs", message.top_logprobs, step::kMaxTopLogprobs);
  archive.number("cached_tokens", message.cached_tokens);
  archive.choice("finish", message.finish, step::FinishReason::kNone, step::FinishReason::kError);
  archive.number("error_code", message.error_code);
  archive.text("error_message", message.error_message, kMaxErrorBytes);
  archive.require(message.finish != step::FinishReason::kError || message.error_code != 0,
                  "error_code",
                  "the code of the error that the request ends with");
}

template <typename Archive, Like<FrontEvents> Message>
void fields(Archive& archive, Message& message) {
  archive.list("events", message.events, kMaxFrontEvents);
}

template <typename Archive, Like<History> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
  archive.words("marks", message.marks, kMaxHistory);
  archive.words("tokens", message.tokens, kMaxHistory);
  archive.words("cached_tokens", message.cached_tokens, kMaxFrontPrompts);
  archive.require(message.marks.size() == message.tokens.size(), "tokens", "as many as marks");
}

template <typename Archive, Like<Report> Message>
void fields(Archive& archive, Message& message) {
  archive.number("query", message.query);
  http_status(archive, message.status);
  archive.text("text", message.text, kMaxReportBytes);
  archive.boolean("last", message.last);
}

template <typename Archive, Like<Drain> Message>
void fields(Archive& archive, Message& message) {
  archive.boolean("answers_end", message.answers_end);
}

template <typename Archive, Like<PromptText> Message>
void fields(Archive& archive, Message& message) {
  archive.text("text", message.text, kMaxPromptTextBytes);
  archive.boolean("last", message.last);
}

template <typename Archive, Like<RunPrompts> Message>
void fields(Archive& archive, Message& message) {
  archive.boolean("apply_chat_template", message.apply_chat_template);
  archive.number("max_tokens", message.max_tokens, 1, std::numeric_limits<std::uint32_t>::max());
  archive.optional_real("temperature", message.temperature);
  archive.boolean("is_seeded", message.is_seeded);
  archive.number("seed", message.seed, 0, std::numeric_limits<std::int64_t>::max());
}

// ---- front → leader

template <typename Archive, Like<Admit> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
  archive.text("route", message.route, kMaxNameBytes);
  archive.number("body_bytes", message.body_bytes);
  archive.boolean("generates", message.generates);
}

template <typename Archive, Like<Begin> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
  archive.text("id", message.id, kMaxNameBytes);
  archive.number("booked_tokens", message.booked_tokens);
  archive.number("prompts", message.prompts, 1, kMaxFrontPrompts);
  archive.boolean("stream", message.stream);
  archive.number("tokenize_us", message.tokenize_us);
  archive.number("told", message.told);
}

template <typename Archive, Like<PromptPart> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
  archive.words("ids", message.ids, kMaxPromptPart);
  archive.require(!message.ids.empty(), "ids", "at least one token");
}

template <typename Archive, Like<Generate> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
  archive.number("choices", message.choices, 1, kMaxFrontChoices);
  archive.structure("sampling", message.sampling);
  archive.structure("stop", message.stop);
  archive.text("cache_salt", message.cache_salt, kMaxSaltBytes);
}

template <typename Archive, Like<StopChoice> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
  archive.number("prompt", message.prompt);
  archive.number("choice", message.choice);
  archive.number("position", message.position);
}

template <typename Archive, Like<End> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("key", message.key);
  archive.text("outcome", message.outcome, kMaxNameBytes);
  archive.text("error", message.error, kMaxErrorBytes);
  http_status(archive, message.status);
}

template <typename Archive, Like<Query> Message>
void fields(Archive& archive, Message& message) {
  archive.number("query", message.query);
  archive.choice("kind", message.kind, QueryKind::kReady, QueryKind::kMetrics);
}

template <typename Archive, Like<Disconnected> Message>
void fields(Archive& archive, Message& message) {
  connection_number(archive, message.connection);
  archive.boolean("cut", message.cut);
}

template <typename Archive, Like<AtRest> Message>
void fields(Archive& archive, Message& message) {
  connection_number(archive, message.connection);
  archive.number("received_bytes", message.received_bytes);
  archive.number("sent_bytes", message.sent_bytes);
}

template <typename Archive, Like<Released> Message>
void fields(Archive& archive, Message& message) {
  connection_number(archive, message.connection);
  archive.number("received_bytes", message.received_bytes);
  archive.number("sent_bytes", message.sent_bytes);
}

template <typename Archive, Like<Retire> Message>
void fields(Archive&, Message&) {}

template <typename Archive, Like<FrontTimes> Message>
void fields(Archive& archive, Message& message) {
  archive.number("longest_callback_us", message.longest_callback_us);
  archive.number("long_callbacks", message.long_callbacks);
  archive.number("longest_lag_us", message.longest_lag_us);
  archive.number("log_lines_dropped", message.log_lines_dropped);
}

template <typename Archive, Like<PromptsOutput> Message>
void fields(Archive& archive, Message& message) {
  archive.text("text", message.text, kMaxPromptTextBytes);
}

template <typename Archive, Like<PromptsEnd> Message>
void fields(Archive& archive, Message& message) {
  archive.number("code", message.code);
  archive.text("message", message.message, kMaxErrorBytes);
}

std::string encode(const LeaderToFront& record) {
  return Writer::encode(RecordFrame<const LeaderToFront&>{record});
}
std::string encode(const FrontToLeader& record) {
  return Writer::encode(RecordFrame<const FrontToLeader&>{record});
}

Status check(const LeaderToFront& record) {
  return Checker::check("leader_to_front", RecordFrame<const LeaderToFront&>{record});
}
Status check(const FrontToLeader& record) {
  return Checker::check("front_to_leader", RecordFrame<const FrontToLeader&>{record});
}

Result<LeaderToFront> decode_leader_to_front(std::string_view bytes) {
  PHALANX_TRY(auto frame, Reader::decode<RecordFrame<LeaderToFront>>("leader_to_front", bytes));
  return std::move(frame.record);
}
Result<FrontToLeader> decode_front_to_leader(std::string_view bytes) {
  PHALANX_TRY(auto frame, Reader::decode<RecordFrame<FrontToLeader>>("front_to_leader", bytes));
  return std::move(frame.record);
}

}  // namespace phalanx::wire
