// SPDX-License-Identifier: Apache-2.0
// What the log says about the operations of a rank group: rank times, drains, stale replies.
#pragma once

#include <cstdint>

#include "phalanx/engine/collective_step.h"
#include "phalanx/engine/step_fault.h"

namespace phalanx::engine {

void log_rank_times(const CollectiveStep& step, std::uint32_t ranks);
void log_drain(const CollectiveStep& step, const StepFault& fault, std::uint32_t ranks);
void log_stale(RankId rank, const wire::RankReply& reply);

}  // namespace phalanx::engine
