// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/desk/front_desk.h"
#include "phalanx/keeper/front_host.h"
#include "phalanx/keeper/front_start.h"
#include "phalanx/keeper/fronts.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::keeper {

// Loop thread.
struct PromptCalls {
  std::function<void(const Error& cause)> on_failed;  // no front has ever been ready, and none will
  // Runs once: what goes to standard output, or why there is nothing.
  std::function<void(Result<std::string> output)> on_end;
};

// Has a front generate for the prompts of the command line: one front, which has no clients. It
// renders and tokenizes them and makes text of the tokens; its requests are at a desk like those of
// clients. When it dies it is started again and goes on with them: nothing is generated twice, and
// of what it had put out nothing has been taken. One that dies of what it does kMaxFailures times
// ends it.
//
// Ownership: borrows the loop and the parts, which must outlive it.
// Threads: the loop thread.
// Blocks: never.
class PromptFront {
 public:
  static constexpr std::size_t kMaxFailures = 3;
  static constexpr auto kMaxAway = std::chrono::seconds(60);  // as clients wait for a front

  PromptFront(os::EventLoop& loop,
              FrontStart start,
              const FrontsParts& parts,
              Prompts prompts,
              PromptCalls calls);
  PromptFront(const PromptFront&) = delete;
  PromptFront& operator=(const PromptFront&) = delete;
  ~PromptFront();

  void start(int tokenizer, int lifeline_pipe);  // as FrontHost::start()
  void run();                                    // the replicas serve: it may begin
  void on_tick();                                // every supervise::kTickPeriod

 private:
  [[nodiscard]] FrontCalls host_calls();
  [[nodiscard]] desk::DeskParts desk_parts(const FrontsParts& parts);
  [[nodiscard]] Status on_record(const wire::FrontToLeader& record);
  [[nodiscard]] Status on_output(const wire::PromptsOutput& output);
  void on_end(const wire::PromptsEnd& ending);
  void on_gone(const FrontEnd& end);
  void send_prompts();
  void finish(Result<std::string> output);

  os::EventLoop& loop_;
  Prompts prompts_;
  PromptCalls calls_;
  std::unique_ptr<desk::FrontDesk> desk_;
  std::unique_ptr<os::EventLoop::Handle> flush_timer_;
  std::unique_ptr<os::EventLoop::Handle> away_timer_;  // while there is no front any more
  std::unique_ptr<FrontHost> host_;
  std::string output_;  // of this life of the front
  std::size_t failures_ = 0;
  bool running_ = false;
  bool ended_ = false;
};

}  // namespace phalanx::keeper
