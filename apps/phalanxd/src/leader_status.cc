// SPDX-License-Identifier: Apache-2.0
#include "leader_status.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "phalanx/base/version.h"

namespace phalanx::app {

namespace {

using nlohmann::json;

json remainder_json(const routing::Remainder& remainder) {
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

json ranks_json(const wire::ReplicaStatus& status) {
  json ranks = json::array();
  for (const wire::RankStatus& rank : status.ranks) {
    ranks.push_back({{"rank", ranks.size()},
                     {"state", rank_state(rank.state)},
                     {"pid", rank.pid},
                     {"incarnation", rank.incarnation.value()},
                     {"restarts", rank.restarts},
                     {"last_error", rank.last_error},
                     {"preparations", rank.preparations},
                     {"allocations", rank.allocations}});
  }
  return ranks;
}

json replica_json(ReplicaId replica,
                  const routing::Router& router,
                  const fleet::ReplicaHost& replicas) {
  const supervise::SlotStatus slot = replicas.status(replica);
  const auto report = replicas.reports().find(replica);
  const wire::ReplicaStatus status =
      report == replicas.reports().end() ? wire::ReplicaStatus{} : report->second;
  return {{"replica", replica.value()},
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
          {"preemptions", status.preemptions},
          {"drains", status.drains},
          {"stale_replies", status.stale_replies},
          {"pending_tokens", remainder_json(router.ledger().pending(replica))},
          {"pending_tokens_recount", remainder_json(router.ledger().recount(replica))},
          {"open_attempts", router.ledger().open_attempts(replica)},
          {"ranks", ranks_json(status)}};
}

}  // namespace

std::string status_json(const std::string& model,
                        const std::string& phase,
                        const routing::Router& router,
                        const serving::Dispatcher& dispatcher,
                        const fleet::ReplicaHost& replicas,
                        std::uint64_t requests_finished) {
  json list = json::array();
  for (std::uint32_t i = 0; i < replicas.size(); ++i) {
    list.push_back(replica_json(ReplicaId(i), router, replicas));
  }
  const json document = {{"version", kVersion},
                         {"model", model},
                         {"state", phase},
                         {"pid", ::getpid()},
                         {"requests", dispatcher.requests()},
                         {"requests_waiting_for_replica", dispatcher.waiting()},
                         {"requests_finished", requests_finished},
                         {"redispatches", dispatcher.counters().redispatches},
                         {"replicas", list}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<AdminCommand> parse_admin_command(const std::string& line) {
  const json document = json::parse(line, nullptr, false);
  if (!document.is_object() || !document.contains("command") || !document["command"].is_string()) {
    return invalid_argument("expected an object with \"command\"");
  }
  AdminCommand command;
  command.name = document["command"].get<std::string>();
  if (command.name == "drain" || command.name == "resume" || command.name == "restart") {
    if (!document.contains("replica") || !document["replica"].is_number_unsigned() ||
        document["replica"].get<std::uint64_t>() > 0xFFFF) {
      return invalid_argument(command.name + ": expected the number of a replica");
    }
    command.replica = document["replica"].get<std::uint32_t>();
  } else if (command.name != "status" && command.name != "ping") {
    return invalid_argument("unknown command \"" + command.name +
                            "\"; expected status, ping, drain, resume or restart");
  }
  return command;
}

std::string admin_ok() {
  return R"({"ok":true})";
}

std::string admin_error(const Error& error) {
  const json document = {
      {"ok", false}, {"error", error.message()}, {"code", error_traits(error.code()).name}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace phalanx::app
