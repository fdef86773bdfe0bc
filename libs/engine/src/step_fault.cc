// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/step_fault.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/crash_signals.h"

namespace phalanx::engine {
namespace {

bool lacks(const Error& error) {
  return error.code() == Code::kResourceExhausted;
}

}  // namespace

bool kv_survives(const RankDeath& death) {
  return !death.signaled || !is_crash_signal(death.number) || death.origin == DeathOrigin::kSent;
}

Error error_of(const RankDeath& death, const std::string& when) {
  return {death.lacked_resources ? Code::kResourceExhausted : Code::kUnavailable,
          when + ": " + death.description};
}

bool is_consequence(const RankFailure& failure) {
  return failure.kind == RankFailure::Kind::kReply && failure.error.code() == Code::kAborted;
}

StepFault StepFault::of_replica(Error error) {
  StepFault fault;
  fault.own = std::move(error);
  return fault;
}

void StepFault::add_behind(const StepFault& behind) {
  for (const RankFailure& failure : behind.ranks) {
    const auto known =
        std::find_if(ranks.begin(), ranks.end(), [&](const RankFailure& own_failure) {
          return own_failure.rank == failure.rank;
        });
    if (known == ranks.end()) {
      ranks.push_back(failure);
    } else if (is_consequence(*known) && failure.kind != RankFailure::Kind::kReply) {
      *known = failure;  // a rank that has failed in one step refuses the next: that is no news
    }
  }
  causes_first();
}

void StepFault::causes_first() {
  std::stable_partition(ranks.begin(), ranks.end(), [](const RankFailure& failure) {
    return !is_consequence(failure);
  });
}

bool StepFault::own_evidence() const {
  return own || hung || std::any_of(ranks.begin(), ranks.end(), [](const RankFailure& failure) {
           return failure.kind == RankFailure::Kind::kDiverged ||
                  (failure.kind == RankFailure::Kind::kReply && !is_consequence(failure) &&
                   !lacks(failure.error));
         });
}

bool StepFault::lacks_resources() const {
  return (own && lacks(*own)) ||
         std::any_of(ranks.begin(), ranks.end(), [](const RankFailure& failure) {
           return lacks(failure.error);
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
