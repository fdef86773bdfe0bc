// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/wire/limits.h"
#include "phalanx/wire/replica_messages.h"

#include "archive.h"

namespace phalanx::wire {

template <typename Archive, Like<RankStatus> Message>
void fields(Archive& archive, Message& message) {
  archive.choice("state", message.state, RankState::kStarting, RankState::kDead);
  archive.number("pid", message.pid);
  archive.id("incarnation", message.incarnation);
  archive.number("restarts", message.restarts);
  archive.text("last_error", message.last_error, kMaxErrorBytes);
  archive.number("preparations", message.preparations);
  archive.number("allocations", message.allocations);
}

template <typename Archive, Like<ReplicaStatus> Message>
void fields(Archive& archive, Message& message) {
  archive.id("epoch", message.epoch);
  archive.id("last_step", message.last_step);
  archive.boolean("recovering", message.recovering);
  archive.boolean("searching", message.searching);
  archive.number("running", message.running);
  archive.number("waiting", message.waiting);
  archive.number("kv_blocks_free", message.kv_blocks_free);
  archive.number("kv_blocks_total", message.kv_blocks_total);
  archive.number("kv_blocks_cached", message.kv_blocks_cached);
  archive.number("prefix_tokens_asked", message.prefix_tokens_asked);
  archive.number("prefix_tokens_found", message.prefix_tokens_found);
  archive.number("preemptions", message.preemptions);
  archive.number("step_budget_rows", message.step_budget_rows);
  archive.number("drains", message.drains);
  archive.number("stale_replies", message.stale_replies);
  archive.text("last_error", message.last_error, kMaxErrorBytes);
  archive.list("ranks", message.ranks, kMaxRanks);
}

}  // namespace phalanx::wire
