// SPDX-License-Identifier: Apache-2.0
#include "phalanx/worker/worker.h"

#include <cstdio>

#include "phalanx/fleet/worker_title.h"

#include "loader_role.h"
#include "rank_role.h"
#include "replica_role.h"

namespace phalanx::worker {

int run_worker(std::string_view title, const Seams& seams) {
  const std::string_view role = title.substr(fleet::kWorkerTitlePrefix.size());
  if (role.starts_with("rank ")) {
    return run_rank(seams);
  }
  if (role.starts_with("replica ")) {
    return run_replica(seams);
  }
  if (role.starts_with("loader ")) {
    return run_loader();
  }
  std::fprintf(
      stderr, "phalanxd: unknown role \"%.*s\"\n", static_cast<int>(role.size()), role.data());
  return 64;
}

}  // namespace phalanx::worker
