// SPDX-License-Identifier: Apache-2.0
// phalanx-worker whose ranks write down when each of their steps began and ended, for
// bench/between_steps. Asked by a server that has it as its phalanx-worker, a rank writes the file
// steps-PID beside the program when it ends: a line "BEGAN ENDED SEQUENCES IS_DECODE" for each step
// that was computed, in nanoseconds of the monotonic clock.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "program.h"
#include "usage.h"

namespace phalanx::bench {
namespace {

constexpr char kUsage[] =
    "usage: timed_worker worker ROLE\n"
    "what bench/between_steps starts as phalanx-worker; it measures nothing by itself";

constexpr std::size_t kSteps = std::size_t{1} << 17;  // the latest ones are kept

struct Step {
  std::uint64_t began_ns = 0;
  std::uint64_t ended_ns = 0;
  std::size_t sequences = 0;
  bool is_decode = false;  // of all of them
};

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

// Passes everything on. Between two steps it reads the clock twice and writes memory that it has.
class TimedRunner final : public engine::ModelRunner {
 public:
  explicit TimedRunner(std::unique_ptr<engine::ModelRunner> inner)
      : inner_(std::move(inner)), steps_(kSteps) {}
  TimedRunner(const TimedRunner&) = delete;
  TimedRunner& operator=(const TimedRunner&) = delete;
  ~TimedRunner() override {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    std::ofstream file(self.parent_path() / ("steps-" + std::to_string(::getpid())));
    for (std::size_t i = count_ - std::min(count_, kSteps); i < count_; ++i) {
      const Step& step = steps_[i % kSteps];
      file << step.began_ns << ' ' << step.ended_ns << ' ' << step.sequences << ' '
           << (step.is_decode ? 1 : 0) << '\n';
    }
    if (error || !file.flush()) {
      std::fprintf(stderr, "timed_worker: the times of steps could not be written\n");
    }
  }

  Result<engine::RunnerIdentity> identity() override { return inner_->identity(); }
  Status init(Epoch epoch) override { return inner_->init(epoch); }
  Status sanity() override { return inner_->sanity(); }
  Status step(const step::SequenceTable& table,
              std::span<const step::StepItem> items,
              std::span<step::SampleResult> results) override {
    Step& record = steps_[count_ % kSteps];
    record.sequences = items.size();
    record.is_decode = std::all_of(items.begin(), items.end(), [](const step::StepItem& item) {
      return item.count == 1 && item.sample;
    });
    record.began_ns = now_ns();
    Status status = inner_->step(table, items, results);
    record.ended_ns = now_ns();
    if (status) {
      ++count_;
    }
    return status;
  }
  Status clear(bool zero_kv) override { return inner_->clear(zero_kv); }
  engine::RunnerCounters counters() const override { return inner_->counters(); }

 private:
  std::unique_ptr<engine::ModelRunner> inner_;
  std::vector<Step> steps_;
  std::size_t count_ = 0;
};

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  if (phalanx::bench::asks_for_help(argc, argv)) {
    std::puts(phalanx::bench::kUsage);
    return 0;
  }
  phalanx::worker::Seams seams;
  seams.wrap_runner = [](std::unique_ptr<phalanx::engine::ModelRunner> runner,
                         phalanx::ReplicaId,
                         phalanx::RankId) {
    return std::unique_ptr<phalanx::engine::ModelRunner>(
        std::make_unique<phalanx::bench::TimedRunner>(std::move(runner)));
  };
  return phalanx::app::run_worker_program(argc, argv, seams);
}
