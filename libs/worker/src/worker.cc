// SPDX-License-Identifier: Apache-2.0
#include "phalanx/worker/worker.h"

#include <cstdio>

#include "phalanx/os/child_side.h"

#include "loader_role.h"
#include "planner_role.h"
#include "rank_role.h"
#include "replica_role.h"
#include "worker_context.h"

namespace phalanx::worker {

namespace {

int refuse(const std::string& why) {
  std::fprintf(stderr, "phalanx-worker: %s\n", why.c_str());
  return error_traits(Code::kInvalidArgument).exit_status;
}

}  // namespace

int run_worker(int argc, char** argv, const Seams& seams) {
  const std::string word = argc > 2 && argv[1] == fleet::kWorkerMode ? argv[2] : "";
  const std::optional<fleet::WorkerRole> role = fleet::parse_worker_role(word);
  if (!role) {
    return refuse("expected worker planner, loader, replica or rank, found \"" + word +
                  "\"; to start a server: phalanxd MODEL");
  }
  if (!os::has_control_socket()) {
    return refuse("a " + word +
                  " is started by phalanxd itself, which tells it over descriptor 3 what to do; to "
                  "start a server: phalanxd MODEL");
  }
  WorkerContext context{argv[0], {}, os::ProcessTitle(argc, argv), seams};
  for (int i = 3; i < argc; ++i) {
    auto wrapper = fleet::parse_worker_wrapper(argv[i]);
    if (!wrapper) {
      return refuse(wrapper.error().message());
    }
    context.wrappers.push_back(*std::move(wrapper));
  }
  switch (*role) {
    case fleet::WorkerRole::kRank:
      return run_rank(context);
    case fleet::WorkerRole::kReplica:
      return run_replica(context);
    case fleet::WorkerRole::kLoader:
      return run_loader(context);
    case fleet::WorkerRole::kPlanner:
      break;
  }
  return run_planner(context);
}

}  // namespace phalanx::worker
