// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/serving/served_model.h"

#include "options.h"

namespace phalanx::app {

// Generation for the prompts of the command line, through the same dispatcher, replicas and ranks
// as every request, all at the same time. Prints text and figures in the order of the prompts.
//
// Threads: the loop thread.
// Ownership: borrows all; must outlive the requests.
class OfflineRun {
 public:
  // `done` runs once, with the exit status or the first error.
  using Done = std::function<void(Result<int>)>;

  OfflineRun(const Options& options,
             const serving::ServedModel& model,
             dispatch::Dispatcher& dispatcher,
             Done done);
  OfflineRun(const OfflineRun&) = delete;
  OfflineRun& operator=(const OfflineRun&) = delete;
  ~OfflineRun();

  void start();

 private:
  class Sink;
  struct Generation {
    std::string prompt;
    std::string text;
    std::vector<TokenId> ids;
    std::string finish_reason;
    std::size_t prompt_tokens = 0;
    SteadyTime first_token{};
    SteadyTime last_token{};
  };

  [[nodiscard]] Status submit(std::size_t index);
  void end_one();
  void fail(const Error& error);
  void print() const;

  const Options& options_;
  const serving::ServedModel& model_;
  dispatch::Dispatcher& dispatcher_;
  Done done_;
  SteadyTime started_{};
  std::vector<Generation> generations_;
  std::size_t open_ = 0;
  bool ended_ = false;
};

}  // namespace phalanx::app
