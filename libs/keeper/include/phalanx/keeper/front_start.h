// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/os/child_process.h"
#include "phalanx/wire/bootstrap.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::keeper {

// What the fronts are told at their start.
struct FrontStart {
  std::size_t fronts = 1;
  std::size_t spares = 1;  // for when one dies; started once the first front is ready
  // One more, the last one, which runs only from its restart() until its stop().
  bool has_quarantine = false;
  os::HeldProgram program;         // what to run first
  wire::FrontBootstrap bootstrap;  // of all of them; the host adds what is each one's own
  Duration start_timeout = std::chrono::seconds(120);
  Duration trial_time = std::chrono::seconds(60);  // for the first front with a new program
};

// The prompts of the command line, for a front without clients.
struct Prompts {
  std::vector<std::string> texts;  // at most wire::kMaxPromptsBytes together
  wire::RunPrompts how;
};

}  // namespace phalanx::keeper
