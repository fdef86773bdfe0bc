// SPDX-License-Identifier: Apache-2.0
// What the log says about the operations of a rank group: fan-out, rank times, drains.
#pragma once

#include <cstddef>
#include <cstdint>

#include "phalanx/engine/collective_step.h"
#include "phalanx/engine/step_fault.h"

namespace phalanx::engine {

void log_fan_out(const StepIdentity& identity, std::size_t frame_bytes, std::uint32_t ranks);
void log_rank_times(const CollectiveStep& step, std::uint32_t ranks);
void log_drain(const CollectiveStep& step, const StepFault& fault, std::uint32_t ranks);
void log_stale(RankId rank, const wire::RankReply& reply);

}  // namespace phalanx::engine
