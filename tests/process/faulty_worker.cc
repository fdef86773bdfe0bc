// SPDX-License-Identifier: Apache-2.0
// phalanx-worker with faults, for the process tests. The shipped program holds none of this.
//
// FAULTY_RANK=
//   exit-at-start:TP     rank TP of every replica exits with status 69 before it says a word
//   throw-at-step:TP:N   rank TP of replica 0 throws in its Nth step of epoch 1, so once
//   throw-at-ping:TP     rank TP of replica 0 throws at the first ping of epoch 1, outside of what
//                        its command loop catches
//   hang-at-init:TP      rank TP of replica 0 stands still in the init of every epoch but the first
//   throw-at-init:TP     … throws there
//   segv-at-token:TP:ID  rank TP of every replica writes through a null pointer whenever a step
//                        computes token ID
//
// FAULTY_REPLICA=        the first incarnation of replica 0 throws inside its engine …
//   throw-idle           … at its 5th heartbeat after the first in which it was ready
//   throw-mid-prefill    … when it tells of a chunk of a prompt that is not the last
//   throw-mid-decode     … when it tells of a sequence's 10th token
//   deaf-while:PATH      … or only stands still as long as there is a file PATH: it neither reads
//                        nor tells anything
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "program.h"

namespace {

using phalanx::Epoch;
using phalanx::Incarnation;
using phalanx::RankId;
using phalanx::ReplicaId;
using phalanx::Result;
using phalanx::Status;
using phalanx::StepId;
namespace engine = phalanx::engine;
namespace step = phalanx::step;
namespace wire = phalanx::wire;

struct Fault {
  std::string kind;
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Children get none of the leader's environment: they look it up in that of their ancestors. Empty
// if it is not set.
std::string variable(const std::string& name) {
  for (int pid = ::getpid(); pid > 1;) {
    const std::string process = "/proc/" + std::to_string(pid);
    std::istringstream settings(text_of(process + "/environ"));
    for (std::string setting; std::getline(settings, setting, '\0');) {
      if (setting.starts_with(name + "=")) {
        return setting.substr(name.size() + 1);
      }
    }
    const std::string status = text_of(process + "/status");
    const std::size_t at = status.find("PPid:");
    pid = at == std::string::npos ? 0 : std::atoi(status.c_str() + at + 5);
  }
  return "";
}

Fault read_rank_fault() {
  const std::string text = variable("FAULTY_RANK");
  Fault fault;
  char kind[32] = "";
  unsigned rank = 0;
  unsigned long step = 0;
  if (std::sscanf(text.c_str(), "%31[^:]:%u:%lu", kind, &rank, &step) >= 2) {
    fault = {kind, rank, step};
  }
  return fault;
}

// Does this step compute the token `id`?
bool computes(const step::SequenceTable& table,
              std::span<const step::StepItem> items,
              std::uint64_t id) {
  return std::any_of(items.begin(), items.end(), [&](const step::StepItem& item) {
    const auto tokens = table.tokens(item.slot).subspan(item.start, item.count);
    return std::find(tokens.begin(), tokens.end(), static_cast<phalanx::TokenId>(id)) !=
           tokens.end();
  });
}

// Passes everything on, and throws or stands still in the step, init or command that it is told.
class ThrowingRunner final : public engine::ModelRunner {
 public:
  ThrowingRunner(std::unique_ptr<engine::ModelRunner> inner, const Fault& fault)
      : inner_(std::move(inner)), fault_(fault) {}

  Result<engine::RunnerIdentity> identity() override { return inner_->identity(); }
  Status init(Epoch epoch) override {
    epoch_ = epoch;
    if (fault_.kind == "hang-at-init" && epoch > Epoch(1)) {
      for (;;) {
        ::pause();
      }
    }
    if (fault_.kind == "throw-at-init" && epoch > Epoch(1)) {
      throw std::runtime_error("injected by the test");
    }
    return inner_->init(epoch);
  }
  Status sanity() override { return inner_->sanity(); }
  Status step(const step::SequenceTable& table,
              std::span<const step::StepItem> items,
              std::span<step::SampleResult> results) override {
    stepped_ = true;
    if (fault_.kind == "throw-at-step" && epoch_ == Epoch(1) && ++steps_ == fault_.step) {
      throw std::runtime_error("injected by the test");
    }
    if (fault_.kind == "segv-at-token" && computes(table, items, fault_.step)) {
      *nowhere_ = 1;
    }
    return inner_->step(table, items, results);
  }
  Status clear(bool zero_kv) override { return inner_->clear(zero_kv); }
  // Asked for after every command. After the self-test an idle rank hears nothing but pings.
  engine::RunnerCounters counters() const override {
    const bool after_step = std::exchange(stepped_, false);
    if (fault_.kind == "throw-at-ping" && epoch_ == Epoch(1) && last_was_step_ && !after_step) {
      throw std::runtime_error("injected by the test");
    }
    last_was_step_ = after_step;
    return inner_->counters();
  }

 private:
  std::unique_ptr<engine::ModelRunner> inner_;
  Fault fault_;
  volatile int* nowhere_ = nullptr;
  std::uint64_t steps_ = 0;
  mutable bool stepped_ = false;
  mutable bool last_was_step_ = false;
  Epoch epoch_;
};

// Throws or stands still inside the engine of the first incarnation of replica 0, which is about to
// send `message`.
class FaultyReplica {
 public:
  explicit FaultyReplica(std::string kind) : kind_(std::move(kind)) {}

  void operator()(ReplicaId replica, Incarnation incarnation, const wire::ReplicaMessage& message) {
    if (replica != ReplicaId(0) || incarnation != Incarnation(1)) {
      return;
    }
    constexpr std::string_view kDeaf = "deaf-while:";
    if (kind_.starts_with(kDeaf)) {
      while (std::filesystem::exists(kind_.substr(kDeaf.size()))) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      return;
    }
    if (is_time(message)) {
      throw std::runtime_error("injected by the test");
    }
  }

 private:
  bool is_time(const wire::ReplicaMessage& message) {
    ready_ = ready_ || std::holds_alternative<wire::ReplicaReady>(message);
    if (kind_ == "throw-idle") {
      return ready_ && std::holds_alternative<wire::ReplicaStatus>(message) && ++heartbeats_ > 5;
    }
    const auto* const batch = std::get_if<wire::TokenBatch>(&message);
    return batch != nullptr &&
           std::any_of(batch->updates.begin(), batch->updates.end(), [&](const auto& update) {
             return kind_ == "throw-mid-prefill" ? update.to_compute > 0 && !update.has_token
                                                 : update.has_token && update.position == 9;
           });
  }

  std::string kind_;
  bool ready_ = false;
  int heartbeats_ = 0;
};

phalanx::worker::Seams seams_of(const Fault& fault) {
  phalanx::worker::Seams seams;
  if (const std::string kind = variable("FAULTY_REPLICA"); !kind.empty()) {
    seams.before_replica_send = FaultyReplica(kind);
  }
  if (fault.kind == "exit-at-start") {
    seams.at_rank_start = [fault](ReplicaId, RankId rank) {
      if (rank.value() == fault.rank) {
        ::_exit(69);
      }
    };
  } else if (fault.kind.starts_with("throw-at-") || fault.kind == "hang-at-init" ||
             fault.kind == "segv-at-token") {
    seams.wrap_runner =
        [fault](std::unique_ptr<engine::ModelRunner> runner, ReplicaId replica, RankId rank) {
          const bool everywhere = fault.kind == "segv-at-token";
          if ((replica != ReplicaId(0) && !everywhere) || rank.value() != fault.rank) {
            return runner;
          }
          return std::unique_ptr<engine::ModelRunner>(
              std::make_unique<ThrowingRunner>(std::move(runner), fault));
        };
  }
  return seams;
}

}  // namespace

int main(int argc, char** argv) {
  return phalanx::app::run_worker_program(argc, argv, seams_of(read_rank_fault()));
}
