// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "phalanx/dispatch/dispatcher.h"

namespace phalanx::dispatch {

struct Dispatcher::Request {
  RequestId id;
  Generation spec;
  std::shared_ptr<GenerationSink> sink;
  std::vector<Running> choices;

  [[nodiscard]] bool finished() const {
    return std::all_of(
        choices.begin(), choices.end(), [](const Running& r) { return r.choice.finished(); });
  }
};

}  // namespace phalanx::dispatch
