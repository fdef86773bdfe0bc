// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/serving/request_desk.h"
#include "phalanx/serving/served_model.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::serving {

// The prompts of the command line and how they are generated for.
struct OfflineOptions {
  std::vector<std::string> prompts;
  wire::RunPrompts how;
};

struct OfflineCalls {
  // What the next prompts have given, as text and figures; of any size, in the order of the
  // prompts.
  std::function<void(std::string output)> on_output;
  // Runs once, and nothing after it: all prompts are answered, or the first error.
  std::function<void(Status status)> on_end;
};

// Generation for the prompts of the command line, as requests of a desk like every other, all at
// the same time. Their keys are the same in every process that runs them, so the desk goes on with
// what another one has begun.
//
// Threads: the loop thread.
// Ownership: borrows model, desk and clock; must outlive the requests.
// Blocks: for the tokenization of one prompt at a time, between which the loop turns.
class OfflineRun {
 public:
  OfflineRun(OfflineOptions options,
             const ServedModel& model,
             RequestDesk& desk,
             const Clock& clock,
             OfflineCalls calls);
  OfflineRun(const OfflineRun&) = delete;
  OfflineRun& operator=(const OfflineRun&) = delete;
  ~OfflineRun();

  void start();

 private:
  class Sink;
  struct Generation {
    std::string text;
    std::vector<TokenId> ids;
    std::string finish_reason;  // empty: it is not complete
    std::size_t prompt_tokens = 0;
    SteadyTime first_token{};
    SteadyTime last_token{};
  };

  [[nodiscard]] Result<GenerationRequest> request_of(const std::string& prompt) const;
  void begin_next();
  void begin(std::size_t index, GenerationRequest request, Duration tokenize_time);
  void on_token(std::size_t index, TextChoice& text, const wire::FrontEvent& token);
  void put_out();
  void fail(const Error& error);
  [[nodiscard]] std::string output_of(std::size_t index) const;
  [[nodiscard]] std::string overall() const;

  OfflineOptions options_;
  const ServedModel& model_;
  RequestDesk& desk_;
  const Clock& clock_;
  OfflineCalls calls_;
  SteadyTime started_{};
  std::vector<Generation> generations_;
  std::size_t begun_ = 0;
  std::size_t put_out_ = 0;
  bool ended_ = false;
};

}  // namespace phalanx::serving
