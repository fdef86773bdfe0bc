// SPDX-License-Identifier: Apache-2.0
#include "phalanx/loadgen/stream_audit.h"

#include <utility>

#include "phalanx/openai/stream_event.h"

namespace phalanx::loadgen {

void StreamAudit::fail(std::string what) {
  if (!failure_) {
    failure_ = std::move(what);
  }
}

StreamAudit::Seen StreamAudit::on_event(std::string_view data) {
  has_events_ = true;
  if (done_) {
    fail(data == openai::kStreamEnd ? "a second [DONE]" : "an event after [DONE]");
    return Seen::kOther;
  }
  if (data == openai::kStreamEnd) {
    done_ = true;
    return Seen::kOther;
  }
  const auto event = openai::parse_stream_event(data);
  if (!event) {
    fail(event.error().message());
    return Seen::kOther;
  }
  if (event->error) {
    ++terminal_events_;
    fail("error event: " + *event->error);
    return Seen::kOther;
  }
  if (event->usage) {
    usage_ = event->usage;
  }
  Seen seen = Seen::kOther;
  for (const auto& choice : event->choices) {
    if (terminal_events_ > 0 && choice.finish_reason.empty()) {
      fail("an event of a choice that had finished");
    }
    if (!choice.finish_reason.empty()) {
      ++terminal_events_;
      finish_reason_ = choice.finish_reason;
    }
    if (!choice.opens) {
      ++tokens_;
      text_ += choice.text;
      seen = Seen::kToken;
    }
  }
  return seen;
}

void StreamAudit::on_end(const Status& transport, bool inside_event) {
  if (terminal_events_ > 1) {
    fail("expected one terminal event, came " + std::to_string(terminal_events_));
  }
  if (!transport) {
    return fail("the stream was cut: " + transport.error().to_string());
  }
  if (!has_events_) {
    return fail("expected a stream of events, came an answer without any");
  }
  if (inside_event || !done_) {
    return fail("the stream was cut before [DONE]");
  }
  if (terminal_events_ == 0) {
    return fail("the stream ended with neither a finish reason nor an error");
  }
  check_usage();
}

void StreamAudit::check_usage() {
  if (failure_) {
    return;
  }
  if (!usage_) {
    return fail("the stream ended without usage");
  }
  if (rules_.usage_counts_events && usage_->completion_tokens != tokens_) {
    fail("usage says " + std::to_string(usage_->completion_tokens) + " tokens, counted " +
         std::to_string(tokens_));
  }
}

}  // namespace phalanx::loadgen
