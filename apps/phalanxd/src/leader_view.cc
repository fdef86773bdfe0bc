// SPDX-License-Identifier: Apache-2.0
#include "leader_view.h"

#include <unistd.h>

#include <utility>

namespace phalanx::app {

namespace {

std::string command_of(const fleet::WorkerWrapper* wrapper) {
  return wrapper == nullptr ? "" : wrapper->command_text();
}

}  // namespace

admin::ServerView server_view(const dispatch::Router& router,
                              const dispatch::Dispatcher& dispatcher,
                              const fleet::ReplicaSlots& replicas,
                              const std::vector<fleet::WorkerWrapper>& wrappers) {
  admin::ServerView view;
  view.pid = ::getpid();
  view.requests = dispatcher.requests();
  view.requests_waiting = dispatcher.waiting();
  view.redispatches = dispatcher.counters().redispatches;
  for (std::uint32_t i = 0; i < replicas.size(); ++i) {
    const ReplicaId replica(i);
    const auto report = replicas.reports().find(replica);
    admin::ReplicaView shown;
    shown.slot = replicas.status(replica);
    shown.report = report == replicas.reports().end() ? wire::ReplicaStatus{} : report->second;
    shown.pending = router.ledger().pending(replica);
    shown.recount = router.ledger().recount(replica);
    shown.open_attempts = router.ledger().open_attempts(replica);
    shown.wrapper = command_of(fleet::wrapper_of(wrappers, replica));
    for (std::uint32_t rank = 0; rank < shown.report.ranks.size(); ++rank) {
      shown.rank_wrappers.push_back(command_of(fleet::wrapper_of(wrappers, replica, RankId(rank))));
    }
    view.replicas.push_back(std::move(shown));
  }
  return view;
}

}  // namespace phalanx::app
