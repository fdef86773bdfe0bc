// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/sim_runner.h"

#include <set>

#include <gtest/gtest.h>

#include "phalanx/step/sequence_row.h"

namespace phalanx::engine {
namespace {

class NoHost final : public SimHost {
 public:
  [[nodiscard]] Status join(Epoch /*epoch*/) override { return ok(); }
  [[nodiscard]] Status sanity() override { return ok(); }
  [[nodiscard]] Status barrier() override { return ok(); }
  [[nodiscard]] Status wait(Duration /*duration*/) override { return ok(); }
};

SimRunner runner_of(std::uint32_t vocabulary) {
  static NoHost host;
  SimOptions options;
  options.token_count = vocabulary;
  return SimRunner(options, host);
}

step::SequenceRow row_with(std::uint32_t masked) {
  step::SequenceRow row;
  row.masked_count = masked;
  for (std::uint32_t i = 0; i < masked; ++i) {
    row.masked[i] = static_cast<TokenId>(i);
  }
  return row;
}

TEST(SimRunner, DrawsEveryTokenThatIsNotMasked) {
  const SimRunner runner = runner_of(8);
  std::set<TokenId> drawn;
  for (std::uint32_t position = 0; position < 500; ++position) {
    drawn.insert(runner.draw(row_with(6), position));
  }
  EXPECT_EQ(drawn, (std::set<TokenId>{6, 7}));
}

// A vocabulary may be smaller than what a request may mask.
TEST(SimRunner, DrawsFromASmallVocabularyOfWhichEverythingIsMasked) {
  for (const std::uint32_t vocabulary : {1U, 2U, 192U}) {
    const TokenId token = runner_of(vocabulary).draw(row_with(vocabulary), 7);
    EXPECT_GE(token, 0);
    EXPECT_LT(token, static_cast<TokenId>(vocabulary));
  }
}

}  // namespace
}  // namespace phalanx::engine
