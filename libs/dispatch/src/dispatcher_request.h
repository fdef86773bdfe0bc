// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "phalanx/dispatch/dispatcher.h"

namespace phalanx::dispatch {

struct Dispatcher::Request {
  RequestId id;
  Generation spec;
  std::shared_ptr<GenerationSink> sink;
  std::vector<Running> choices;
  std::vector<std::uint64_t> prefix{};  // step::extend_prefix_hashes() of the prompt

  [[nodiscard]] bool finished() const {
    return std::all_of(
        choices.begin(), choices.end(), [](const Running& r) { return r.choice.finished(); });
  }
};

}  // namespace phalanx::dispatch
