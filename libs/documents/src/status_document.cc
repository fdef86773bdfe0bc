// SPDX-License-Identifier: Apache-2.0
#include "phalanx/documents/status_document.h"

#include "status_object.h"

namespace phalanx::documents {

namespace {

using nlohmann::json;

json tokens_json(std::uint64_t to_compute, std::uint64_t to_generate) {
  return {{"to_compute", to_compute}, {"to_generate", to_generate}};
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

json ranks_json(const wire::ShownReplica& replica) {
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
                     {"wrapper", wrapped ? replica.rank_wrappers[index].command : ""}});
  }
  return ranks;
}

json replica_json(std::size_t index, const wire::ShownReplica& replica) {
  const wire::ShownSlot& slot = replica.slot;
  const wire::ReplicaStatus& status = replica.report;
  return {{"replica", index},
          {"state", shown_state(replica)},
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
          {"pending_tokens", tokens_json(replica.to_compute, replica.to_generate)},
          {"pending_tokens_recount",
           tokens_json(replica.recount_to_compute, replica.recount_to_generate)},
          {"open_attempts", replica.open_attempts},
          {"wrapper", replica.wrapper.command},
          {"ranks", ranks_json(replica)}};
}

json front_json(std::size_t index, const wire::ShownFront& front) {
  return {{"front", index},
          {"state", front.slot.state},
          {"pid", front.slot.pid},
          {"incarnation", front.slot.incarnation.value()},
          {"restarts", front.slot.restarts},
          {"last_error", front.slot.last_error},
          {"active", front.active},
          {"quarantine", front.is_quarantine},
          {"connections", front.connections}};
}

}  // namespace

bool is_drained(const wire::ShownReplica& replica) {
  return replica.slot.state == "draining" && replica.open_attempts == 0 &&
         replica.report.running == 0 && replica.report.waiting == 0;
}

std::string shown_state(const wire::ShownReplica& replica) {
  return is_drained(replica) ? "drained" : replica.slot.state;
}

json status_object(const wire::ServerStatus& status) {
  json replicas = json::array();
  for (const wire::ShownReplica& replica : status.replicas) {
    replicas.push_back(replica_json(replicas.size(), replica));
  }
  json fronts = json::array();
  for (const wire::ShownFront& front : status.fronts) {
    fronts.push_back(front_json(fronts.size(), front));
  }
  return {{"version", status.version},
          {"model", status.model},
          {"state", status.state},
          {"pid", status.pid},
          {"requests", status.requests},
          {"requests_waiting_for_replica", status.requests_waiting},
          {"requests_finished", status.requests_finished},
          {"redispatches", status.redispatches},
          {"fronts", fronts},
          {"replicas", replicas}};
}

std::string status_json(const wire::ServerStatus& status) {
  return status_object(status).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string status_json_in_ascii(const wire::ServerStatus& status) {
  return status_object(status).dump(-1, ' ', true, json::error_handler_t::replace);
}

}  // namespace phalanx::documents
