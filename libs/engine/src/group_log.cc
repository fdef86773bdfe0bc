// SPDX-License-Identifier: Apache-2.0
#include "group_log.h"

#include <algorithm>
#include <string>

#include "phalanx/obs/log.h"

namespace phalanx::engine {
namespace {

// Steps come by the hundred each second, everything else when something happens.
obs::LogLevel level_of(wire::RankOp op) {
  const bool frequent = op == wire::RankOp::kStep || op == wire::RankOp::kPing;
  return frequent ? obs::LogLevel::kTrace : obs::LogLevel::kDebug;
}

void append(std::string& list, const std::string& value) {
  list += (list.empty() ? "" : ",") + value;
}

}  // namespace

void log_rank_times(const CollectiveStep& step, std::uint32_t ranks) {
  const StepIdentity& identity = step.identity();
  if (!obs::log_enabled(level_of(identity.op))) {
    return;
  }
  std::string took;
  std::string compute;
  std::string collective;
  for (std::uint32_t i = 0; i < ranks; ++i) {
    const wire::RankReply& reply = *step.reply(RankId(i));
    append(took, std::to_string(to_microseconds(step.took(RankId(i)))));
    append(compute, std::to_string(reply.compute_us));
    append(collective, std::to_string(reply.collective_us));
  }
  obs::log_at(level_of(identity.op),
              "rank_times",
              {{"op", name_of(identity.op)},
               {"epoch", identity.epoch.value()},
               {"step", identity.step.value()},
               {"took_us", took},
               {"compute_us", compute},
               {"collective_us", collective}});
}

void log_drain(const CollectiveStep& step, const StepFault& fault, std::uint32_t ranks) {
  if (!obs::log_enabled(obs::LogLevel::kDebug)) {
    return;
  }
  const auto count = [&](auto&& is) {
    return std::count_if(fault.ranks.begin(), fault.ranks.end(), is);
  };
  const auto of_kind = [&](RankFailure::Kind kind) {
    return count([kind](const RankFailure& failure) { return failure.kind == kind; });
  };
  const auto freed = count(is_consequence);
  const auto failed = static_cast<std::ptrdiff_t>(fault.ranks.size() + fault.never_asked.size());
  obs::log_debug("drained",
                 {{"op", name_of(step.identity().op)},
                  {"epoch", step.identity().epoch.value()},
                  {"step", step.identity().step.value()},
                  {"done", static_cast<std::ptrdiff_t>(ranks) - failed},
                  {"aborted", freed},
                  {"errors", of_kind(RankFailure::Kind::kReply) - freed},
                  {"died", of_kind(RankFailure::Kind::kDeath)},
                  {"killed", of_kind(RankFailure::Kind::kKilled)},
                  {"diverged", of_kind(RankFailure::Kind::kDiverged)},
                  {"not_asked", fault.never_asked.size()},
                  {"own", fault.own.has_value()}});
}

void log_stale(RankId rank, const wire::RankReply& reply) {
  if (obs::log_enabled(obs::LogLevel::kDebug)) {
    obs::log_debug("stale_reply",
                   {{"tp", rank.value()},
                    {"op", name_of(reply.op)},
                    {"epoch", reply.epoch.value()},
                    {"step", reply.step.value()}});
  }
}

}  // namespace phalanx::engine
