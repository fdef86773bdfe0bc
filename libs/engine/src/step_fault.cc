// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/step_fault.h"

#include <algorithm>

#include "phalanx/base/crash_signals.h"

namespace phalanx::engine {

bool kv_survives(const RankDeath& death) {
  return !death.signaled || !is_crash_signal(death.number) || death.origin == DeathOrigin::kSent;
}

bool StepFault::own_evidence() const {
  return own || hung || std::any_of(ranks.begin(), ranks.end(), [](const RankFailure& failure) {
           return failure.kind == RankFailure::Kind::kDiverged ||
                  (failure.kind == RankFailure::Kind::kReply &&
                   failure.error.code() != Code::kAborted);
         });
}

Error StepFault::combined() const {
  std::string message;
  std::optional<Code> code;
  const auto name = [&](const std::string& who, const Error& error) {
    message += (message.empty() ? "" : "; ") + who + ": " + error.to_string();
    if (!code || *code == Code::kAborted) {
      code = error.code();
    }
  };
  if (own) {
    name("replica", *own);
  }
  for (const RankFailure& failure : ranks) {
    name("rank " + std::to_string(failure.rank.value()), failure.error);
  }
  for (const RankId rank : never_asked) {
    message += "; rank " + std::to_string(rank.value()) + ": not asked";
  }
  return {code.value_or(Code::kInternal), message};
}

}  // namespace phalanx::engine
