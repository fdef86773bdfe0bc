// SPDX-License-Identifier: Apache-2.0
// phalanxd with faults in its ranks, chosen by FAULTY_RANK, for the process tests. The shipped
// program holds none of this.
//
//   exit-at-start:TP        rank TP of every replica exits with status 69 before it says a word
//   throw-at-step:TP:N      rank TP of replica 0 throws in its Nth step of epoch 1, so once
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "roles.h"

namespace {

using phalanx::Epoch;
using phalanx::RankId;
using phalanx::ReplicaId;
using phalanx::Result;
using phalanx::Status;
using phalanx::StepId;
namespace engine = phalanx::engine;
namespace wire = phalanx::wire;

struct Fault {
  std::string kind;
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
};

Fault read_fault() {
  const char* const text = std::getenv("FAULTY_RANK");
  Fault fault;
  char kind[32] = "";
  unsigned rank = 0;
  unsigned long step = 0;
  if (text != nullptr && std::sscanf(text, "%31[^:]:%u:%lu", kind, &rank, &step) >= 2) {
    fault = {kind, rank, step};
  }
  return fault;
}

// Passes everything on, and throws in one step.
class ThrowingRunner final : public engine::ModelRunner {
 public:
  ThrowingRunner(std::unique_ptr<engine::ModelRunner> inner, std::uint64_t step)
      : inner_(std::move(inner)), step_(step) {}

  Result<engine::RunnerIdentity> identity() override { return inner_->identity(); }
  Status init(Epoch epoch) override {
    epoch_ = epoch;
    return inner_->init(epoch);
  }
  Status sanity() override { return inner_->sanity(); }
  void on_slot_changed(const engine::SequenceTable& table, std::uint32_t slot) override {
    inner_->on_slot_changed(table, slot);
  }
  Status step(StepId step,
              const engine::SequenceTable& table,
              std::span<const wire::StepItem> items,
              std::span<wire::SampleResult> results) override {
    if (epoch_ == Epoch(1) && ++steps_ == step_) {
      throw std::runtime_error("injected by the test");
    }
    return inner_->step(step, table, items, results);
  }
  Status clear(bool zero_kv) override { return inner_->clear(zero_kv); }
  Status unload() override { return inner_->unload(); }
  engine::RunnerCounters counters() const override { return inner_->counters(); }

 private:
  std::unique_ptr<engine::ModelRunner> inner_;
  std::uint64_t step_;
  std::uint64_t steps_ = 0;
  Epoch epoch_;
};

phalanx::app::RankSeams seams_of(const Fault& fault) {
  phalanx::app::RankSeams seams;
  if (fault.kind == "exit-at-start") {
    seams.at_start = [fault](ReplicaId, RankId rank) {
      if (rank.value() == fault.rank) {
        ::_exit(69);
      }
    };
  } else if (fault.kind == "throw-at-step") {
    seams.wrap_runner =
        [fault](std::unique_ptr<engine::ModelRunner> runner, ReplicaId replica, RankId rank) {
          if (replica != ReplicaId(0) || rank.value() != fault.rank) {
            return runner;
          }
          return std::unique_ptr<engine::ModelRunner>(
              std::make_unique<ThrowingRunner>(std::move(runner), fault.step));
        };
  }
  return seams;
}

}  // namespace

int main(int argc, char** argv) {
  const Fault fault = read_fault();
  try {
    return phalanx::app::run_phalanxd(argc, argv, seams_of(fault));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "phalanxd: unexpected: %s\n", error.what());
    return 70;
  }
}
