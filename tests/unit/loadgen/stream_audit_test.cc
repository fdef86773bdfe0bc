// SPDX-License-Identifier: Apache-2.0
#include "phalanx/loadgen/stream_audit.h"

#include <vector>

#include <gtest/gtest.h>

namespace phalanx::loadgen {
namespace {

const std::string kRole =
    R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]})";
const std::string kToken =
    R"({"choices":[{"index":0,"delta":{"content":"a "},"finish_reason":null}]})";
const std::string kLast =
    R"({"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]})";
const std::string kDone = "[DONE]";

std::string usage(int tokens) {
  return R"({"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":)" +
         std::to_string(tokens) + R"(,"total_tokens":)" + std::to_string(tokens + 4) + "}}";
}

std::string verdict(const std::vector<std::string>& events, StreamAudit::Rules rules = {}) {
  StreamAudit audit(rules);
  for (const std::string& event : events) {
    (void)audit.on_event(event);
  }
  audit.on_end(ok(), false);
  return audit.failure().value_or("clean");
}

TEST(StreamAudit, PassesACompleteStream) {
  StreamAudit audit;
  EXPECT_EQ(audit.on_event(kRole), StreamAudit::Seen::kOther);
  EXPECT_EQ(audit.on_event(kToken), StreamAudit::Seen::kToken);
  EXPECT_EQ(audit.on_event(kLast), StreamAudit::Seen::kToken);
  EXPECT_EQ(audit.on_event(usage(2)), StreamAudit::Seen::kOther);
  EXPECT_EQ(audit.on_event(kDone), StreamAudit::Seen::kOther);
  audit.on_end(ok(), false);
  EXPECT_EQ(audit.failure().value_or("clean"), "clean");
  EXPECT_EQ(audit.text(), "a b");
  EXPECT_EQ(audit.finish_reason(), "stop");
  EXPECT_EQ(audit.tokens(), 2U);
  EXPECT_EQ(audit.usage()->prompt_tokens, 4U);
}

TEST(StreamAudit, PassesAStreamOfCompletions) {
  EXPECT_EQ(verdict({R"({"choices":[{"index":0,"text":"a","finish_reason":null}]})",
                     R"({"choices":[{"index":0,"text":"","finish_reason":"length"}]})",
                     usage(2),
                     kDone}),
            "clean");
}

TEST(StreamAudit, WantsExactlyOneTerminalEvent) {
  EXPECT_EQ(verdict({kRole, kToken, usage(1), kDone}),
            "the stream ended with neither a finish reason nor an error");
  EXPECT_EQ(verdict({kLast, kLast, usage(2), kDone}), "expected one terminal event, came 2");
  EXPECT_EQ(verdict({kLast, kToken, usage(2), kDone}), "an event of a choice that had finished");
  EXPECT_EQ(verdict({kToken, R"({"error":{"message":"a rank died"}})", kDone}),
            "error event: a rank died");
}

TEST(StreamAudit, WantsUsageEqualToTheTokensCounted) {
  EXPECT_EQ(verdict({kToken, kLast, usage(3), kDone}), "usage says 3 tokens, counted 2");
  EXPECT_EQ(verdict({kToken, kLast, usage(1), kDone}), "usage says 1 tokens, counted 2");
  EXPECT_EQ(verdict({kLast, kDone}), "the stream ended without usage");
  EXPECT_EQ(verdict({kToken, kLast, usage(3), kDone}, {.usage_counts_events = false}), "clean");
}

TEST(StreamAudit, WantsNothingBehindDone) {
  EXPECT_EQ(verdict({kLast, usage(1), kDone, kToken}), "an event after [DONE]");
  EXPECT_EQ(verdict({kLast, usage(1), kDone, kDone}), "a second [DONE]");
  EXPECT_EQ(verdict({kLast, usage(1)}), "the stream was cut before [DONE]");
}

TEST(StreamAudit, FailsOnMalformedEvents) {
  EXPECT_EQ(verdict({"{\"choices\":[{\"index\":0,\"delta\":{\"content\":5}}]}", kDone}),
            "malformed event: content is 5, not a string");
  EXPECT_EQ(verdict({"[]", kDone}), "malformed event: expected an object, came an empty array");
  EXPECT_EQ(verdict({"{}", kDone}), "malformed event: it has neither choices nor an error");
  EXPECT_EQ(
      verdict(
          {R"({"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":3}})",
           kDone}),
      "malformed event: usage.total_tokens is not the sum of its parts");
}

TEST(StreamAudit, ATransportThatFailsAfterDoneIsStillACut) {
  StreamAudit audit;
  for (const std::string& event : {kLast, usage(1), kDone}) {
    (void)audit.on_event(event);
  }
  audit.on_end(data_loss("no last chunk"), false);
  EXPECT_EQ(audit.failure(), "the stream was cut: data_loss: no last chunk");
}

}  // namespace
}  // namespace phalanx::loadgen
