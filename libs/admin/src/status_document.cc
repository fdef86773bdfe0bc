// SPDX-License-Identifier: Apache-2.0
#include "phalanx/admin/status_document.h"

#include <nlohmann/json.hpp>

#include "phalanx/base/version.h"

namespace phalanx::admin {

namespace {

using nlohmann::json;

json remainder_json(const dispatch::Remainder& remainder) {
  return {{"to_compute", remainder.to_compute}, {"to_generate", remainder.to_generate}};
}

std::string_view rank_state(wire::RankState state) {
  switch (state) {
    case wire::RankState::kStarting:
      return "starting";
    case wire::RankState::kReady:
      return "ready";
    case wire::RankState::kRecovering:
      return "recovering";
    case wire::RankState::kDead:
      return "dead";
  }
  return "unknown";
}

json ranks_json(const ReplicaView& replica) {
  json ranks = json::array();
  for (const wire::RankStatus& rank : replica.report.ranks) {
    const std::size_t index = ranks.size();
    const bool wrapped = index < replica.rank_wrappers.size();
    ranks.push_back({{"rank", index},
                     {"state", rank_state(rank.state)},
                     {"pid", rank.pid},
                     {"incarnation", rank.incarnation.value()},
                     {"restarts", rank.restarts},
                     {"last_error", rank.last_error},
                     {"preparations", rank.preparations},
                     {"allocations", rank.allocations},
                     {"wrapper", wrapped ? replica.rank_wrappers[index] : ""}});
  }
  return ranks;
}

json replica_json(std::size_t index, const ReplicaView& replica) {
  const supervise::SlotStatus& slot = replica.slot;
  const wire::ReplicaStatus& status = replica.report;
  return {{"replica", index},
          {"state", supervise::to_string(slot.state)},
          {"pid", slot.pid},
          {"incarnation", slot.incarnation.value()},
          {"restarts", slot.restarts},
          {"last_error", slot.last_error.empty() ? status.last_error : slot.last_error},
          {"epoch", status.epoch.value()},
          {"step", status.last_step.value()},
          {"running", status.running},
          {"waiting", status.waiting},
          {"kv_blocks_free", status.kv_blocks_free},
          {"kv_blocks_total", status.kv_blocks_total},
          {"kv_blocks_cached", status.kv_blocks_cached},
          {"prefix_tokens_asked", status.prefix_tokens_asked},
          {"prefix_tokens_found", status.prefix_tokens_found},
          {"preemptions", status.preemptions},
          {"drains", status.drains},
          {"stale_replies", status.stale_replies},
          {"pending_tokens", remainder_json(replica.pending)},
          {"pending_tokens_recount", remainder_json(replica.recount)},
          {"open_attempts", replica.open_attempts},
          {"wrapper", replica.wrapper},
          {"ranks", ranks_json(replica)}};
}

json front_json(std::size_t index, const FrontView& front) {
  return {{"front", index},
          {"state", supervise::to_string(front.slot.state)},
          {"pid", front.slot.pid},
          {"incarnation", front.slot.incarnation.value()},
          {"restarts", front.slot.restarts},
          {"last_error", front.slot.last_error},
          {"active", front.active},
          {"connections", front.connections}};
}

}  // namespace

std::string status_json(const ServerView& server) {
  json list = json::array();
  for (const ReplicaView& replica : server.replicas) {
    list.push_back(replica_json(list.size(), replica));
  }
  json fronts = json::array();
  for (const FrontView& front : server.fronts) {
    fronts.push_back(front_json(fronts.size(), front));
  }
  const json document = {{"version", kVersion},
                         {"model", server.model},
                         {"state", server.phase},
                         {"pid", server.pid},
                         {"requests", server.requests},
                         {"requests_waiting_for_replica", server.requests_waiting},
                         {"requests_finished", server.requests_finished},
                         {"redispatches", server.redispatches},
                         {"fronts", fronts},
                         {"replicas", list}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace phalanx::admin
