// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/base/result.h"
#include "phalanx/engine/scheduler.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::engine {

// Prompt and produced tokens that the sequence may reach.
[[nodiscard]] std::uint32_t token_limit(const SchedulerOptions& options,
                                        const wire::Submit& submit);

// Could this sequence ever run? kInvalidArgument, naming what came and what is allowed.
[[nodiscard]] Status check_submit(const SchedulerOptions& options, const wire::Submit& submit);

}  // namespace phalanx::engine
