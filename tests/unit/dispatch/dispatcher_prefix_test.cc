// SPDX-License-Identifier: Apache-2.0
// What the leader makes of the beginnings of prompts.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/step/prefix_hash.h"

#include "support/manual_clock.h"

namespace phalanx::dispatch {
namespace {

struct Sink final : GenerationSink {
  void on_token(const TokenEvent& /*event*/) override {}
  void on_done() override {}
  void on_error(const Error& /*error*/) override {}
};

class DispatcherPrefix : public testing::Test {
 protected:
  static constexpr std::uint64_t kKey = 7;

  DispatcherPrefix() {
    for (const ReplicaId replica : {ReplicaId(0), ReplicaId(1)}) {
      router_.table().at(replica).ready = true;
      router_.table().at(replica).numerics_fingerprint = 1;
    }
  }

  // The replica tells what it has, with hashes of this key.
  void tell(ReplicaId replica, const std::vector<TokenId>& prompt, std::uint64_t key) {
    wire::PrefixChanges changes;
    step::extend_prefix_hashes(key, "tenant", prompt, changes.published);
    router_.prefixes().apply(replica, changes);
  }

  static DispatcherOptions options(std::optional<std::uint64_t> key) {
    return {.on_poisoned = {}, .on_more = [] {}, .prefix_key = key};
  }

  void submit(std::vector<TokenId> prompt, std::uint32_t choices = 1) {
    submit_to(dispatcher_, std::move(prompt), choices);
  }

  static void submit_to(Dispatcher& dispatcher,
                        std::vector<TokenId> prompt,
                        std::uint32_t choices) {
    Generation request;
    request.prompt_ids = std::move(prompt);
    request.stop.max_tokens = 5;
    request.choices = choices;
    request.cache_salt = "tenant";
    dispatcher.submit(std::move(request), std::make_shared<Sink>());
  }

  static wire::Sent take(ReplicaId /*replica*/, const wire::LeaderMessage& /*message*/) {
    return wire::Sent::kQueued;
  }

  test::ManualClock clock_;
  Router router_{2, *make_policy("least_pending_tokens", 1)};
  Dispatcher dispatcher_{router_, &take, clock_, options(kKey)};
};

TEST_F(DispatcherPrefix, KnowsWhatReplicasOfItsBootHave) {
  const std::vector<TokenId> prompt(100, 3);
  tell(ReplicaId(0), prompt, kKey + 1);
  tell(ReplicaId(1), prompt, kKey);
  submit(prompt);
  EXPECT_EQ(router_.ledger().pending(ReplicaId(0)), Remainder{});
  EXPECT_EQ(router_.ledger().pending(ReplicaId(1)), (Remainder{4, 5}));
}

TEST_F(DispatcherPrefix, BooksTheFullBlocksOfAPromptOnceOnAReplica) {
  submit(std::vector<TokenId>(34, 3), 3);
  EXPECT_EQ(router_.ledger().pending(ReplicaId(0)), (Remainder{34 + 2, 10}));
  EXPECT_EQ(router_.ledger().pending(ReplicaId(1)), (Remainder{34, 5}));
}

TEST_F(DispatcherPrefix, BooksAllOfAPromptForEachChoiceWhereReplicasKeepNoPrefixes) {
  Dispatcher dispatcher{router_, &take, clock_, options(std::nullopt)};
  submit_to(dispatcher, std::vector<TokenId>(34, 3), 4);
  EXPECT_EQ(router_.ledger().pending(ReplicaId(0)), (Remainder{68, 10}));
  EXPECT_EQ(router_.ledger().pending(ReplicaId(1)), (Remainder{68, 10}));
}

}  // namespace
}  // namespace phalanx::dispatch
