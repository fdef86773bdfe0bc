// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/base/clock.h"
#include "phalanx/engine/model_runner.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/step/sequence_row.h"

namespace phalanx::engine {

// What a simulated shard needs of the real world: the group's communicator, and time.
class SimHost {
 public:
  SimHost() = default;
  SimHost(const SimHost&) = delete;
  SimHost& operator=(const SimHost&) = delete;
  virtual ~SimHost() = default;

  [[nodiscard]] virtual Status join(Epoch epoch) = 0;  // as ModelRunner::init
  [[nodiscard]] virtual Status sanity() = 0;
  [[nodiscard]] virtual Status barrier() = 0;

  // Sleeps, bumping the progress word at least every 10 ms. kAborted once the abort word is raised.
  [[nodiscard]] virtual Status wait(Duration duration) = 0;
};

struct SimOptions {
  Duration step{};                // of every step
  Duration token{};               // for each token of the batch
  std::uint32_t token_count = 0;  // ≥ 1; tokens drawn lie below it
};

// A runner that computes nothing (`--runner sim`): it keeps the whole protocol, takes the modelled
// time, meets its peers once a step, and draws token = f(seed, choice, position). Stop tokens are
// not drawn while there are others, so a sequence runs to its limit. Logprobs are 0.
//
// Threads: one.
class SimRunner final : public ModelRunner {
 public:
  SimRunner(const SimOptions& options, SimHost& host);

  // The token drawn at `position` of a sequence.
  [[nodiscard]] TokenId draw(const step::SequenceRow& sequence, std::uint32_t position) const;

  [[nodiscard]] Result<RunnerIdentity> identity() override;
  [[nodiscard]] Status init(Epoch epoch) override;
  [[nodiscard]] Status sanity() override;
  [[nodiscard]] Status step(const step::SequenceTable& table,
                            std::span<const step::StepItem> items,
                            std::span<step::SampleResult> results) override;
  [[nodiscard]] Status clear(bool zero_kv) override;
  [[nodiscard]] RunnerCounters counters() const override { return counters_; }

 private:
  SimOptions options_;
  SimHost& host_;
  RunnerCounters counters_;
};

}  // namespace phalanx::engine
