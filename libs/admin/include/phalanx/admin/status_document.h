// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/dispatch/token_ledger.h"
#include "phalanx/supervise/supervisor.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::admin {

// What a server shows of one replica; its number is its place in the list.
struct ReplicaView {
  supervise::SlotStatus slot;
  wire::ReplicaStatus report;  // the last one, or empty
  dispatch::Remainder pending;
  dispatch::Remainder recount;
  std::size_t open_attempts = 0;
  std::string wrapper;                     // the command that it runs under; empty: none
  std::vector<std::string> rank_wrappers;  // the same of each of report.ranks
};

// What it shows of one front; likewise.
struct FrontView {
  supervise::SlotStatus slot;
  bool active = false;  // false: spare, or not ready
  std::size_t connections = 0;
};

struct ServerView {
  std::string model;
  std::string phase;
  std::int64_t pid = 0;
  std::size_t requests = 0;
  std::size_t requests_waiting = 0;
  std::uint64_t requests_finished = 0;
  std::uint64_t redispatches = 0;
  std::vector<FrontView> fronts;
  std::vector<ReplicaView> replicas;
};

// The whole state of the server as one line of JSON, for `phalanxctl status` and /health: leader,
// fronts, replicas, ranks, ledger. The fields are those of proto/admin.md.
[[nodiscard]] std::string status_json(const ServerView& server);

}  // namespace phalanx::admin
