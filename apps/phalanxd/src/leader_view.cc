// SPDX-License-Identifier: Apache-2.0
#include "leader_view.h"

#include <unistd.h>

#include <utility>

#include "phalanx/base/version.h"

namespace phalanx::app {

namespace {

wire::ShownWrapper wrapper_view(const fleet::WorkerWrapper* wrapper) {
  return {wrapper == nullptr ? "" : wrapper->command_text()};
}

wire::ShownSlot slot_view(const supervise::SlotStatus& slot) {
  return {std::string(supervise::to_string(slot.state)),
          slot.pid,
          slot.incarnation,
          slot.restarts,
          slot.last_error};
}

}  // namespace

wire::ServerStatus server_view(const dispatch::Router& router,
                               const dispatch::Dispatcher& dispatcher,
                               const fleet::ReplicaSlots& replicas,
                               const std::vector<fleet::WorkerWrapper>& wrappers) {
  wire::ServerStatus view;
  view.version = kVersion;
  view.pid = ::getpid();
  view.requests = dispatcher.requests();
  view.requests_waiting = dispatcher.waiting();
  view.redispatches = dispatcher.redispatches();
  for (std::uint32_t i = 0; i < replicas.size(); ++i) {
    const ReplicaId replica(i);
    const auto report = replicas.reports().find(replica);
    wire::ShownReplica shown;
    shown.slot = slot_view(replicas.status(replica));
    shown.report = report == replicas.reports().end() ? wire::ReplicaStatus{} : report->second;
    const dispatch::Remainder pending = router.ledger().pending(replica);
    shown.to_compute = pending.to_compute;
    shown.to_generate = pending.to_generate;
    const dispatch::Remainder recount = router.ledger().recount(replica);
    shown.recount_to_compute = recount.to_compute;
    shown.recount_to_generate = recount.to_generate;
    shown.open_attempts = router.ledger().open_attempts(replica);
    shown.wrapper = wrapper_view(fleet::wrapper_of(wrappers, replica));
    for (std::uint32_t rank = 0; rank < shown.report.ranks.size(); ++rank) {
      shown.rank_wrappers.push_back(
          wrapper_view(fleet::wrapper_of(wrappers, replica, RankId(rank))));
    }
    view.replicas.push_back(std::move(shown));
  }
  return view;
}

wire::ShownFront front_view(const keeper::FrontView& front) {
  return {slot_view(front.slot), front.active, front.is_quarantine, front.connections};
}

}  // namespace phalanx::app
