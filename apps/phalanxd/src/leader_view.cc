// SPDX-License-Identifier: Apache-2.0
#include "leader_view.h"

#include <unistd.h>

namespace phalanx::app {

admin::ServerView server_view(const dispatch::Router& router,
                              const dispatch::Dispatcher& dispatcher,
                              const fleet::ReplicaSlots& replicas) {
  admin::ServerView view;
  view.pid = ::getpid();
  view.requests = dispatcher.requests();
  view.requests_waiting = dispatcher.waiting();
  view.redispatches = dispatcher.counters().redispatches;
  for (std::uint32_t i = 0; i < replicas.size(); ++i) {
    const ReplicaId replica(i);
    const auto report = replicas.reports().find(replica);
    view.replicas.push_back(
        {replicas.status(replica),
         report == replicas.reports().end() ? wire::ReplicaStatus{} : report->second,
         router.ledger().pending(replica),
         router.ledger().recount(replica),
         router.ledger().open_attempts(replica)});
  }
  return view;
}

}  // namespace phalanx::app
