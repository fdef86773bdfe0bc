// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/serving/served_model.h"

namespace phalanx::serving {

// The prompts of the command line and how they are generated for.
struct OfflineOptions {
  std::vector<std::string> prompts;
  bool apply_chat_template = true;  // if the model has one
  std::uint32_t max_tokens = 256;
  std::optional<float> temperature;  // none: the model's own default
  std::optional<std::int64_t> seed;  // none: drawn
};

// Generation for the prompts of the command line, through the same dispatcher, replicas and ranks
// as every request, all at the same time. Prints text and figures in the order of the prompts.
//
// Threads: the loop thread.
// Ownership: borrows model and dispatcher; must outlive the requests.
class OfflineRun {
 public:
  // `done` runs once, with the exit status or the first error.
  using Done = std::function<void(Result<int>)>;

  OfflineRun(OfflineOptions options,
             const ServedModel& model,
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

  OfflineOptions options_;
  const ServedModel& model_;
  dispatch::Dispatcher& dispatcher_;
  Done done_;
  SteadyTime started_{};
  std::vector<Generation> generations_;
  std::size_t open_ = 0;
  bool ended_ = false;
};

}  // namespace phalanx::serving
