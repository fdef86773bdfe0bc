// SPDX-License-Identifier: Apache-2.0
#include "roles.h"

#include <unistd.h>

#include <cstdio>

#include "phalanx/flags/flag_table.h"

#include "leader_role.h"
#include "loader_role.h"
#include "rank_role.h"
#include "replica_role.h"

namespace phalanx::app {

os::SpawnPlan spawn_plan(const std::string& role) {
  os::SpawnPlan plan;
  plan.arguments = {std::string(kChildTitlePrefix) + role};
  return plan;
}

int run_child(std::string_view title, const Seams& seams) {
  const std::string_view role = title.substr(kChildTitlePrefix.size());
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

int run_phalanxd(int argc, char** argv, const Seams& seams) {
  const std::string_view title = argc > 0 ? argv[0] : "";
  if (title.starts_with(kChildTitlePrefix)) {
    return run_child(title, seams);
  }
  return run_leader(flags::arguments_of(argc, argv), flags::environment_of(environ));
}

}  // namespace phalanx::app
