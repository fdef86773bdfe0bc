// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "phalanx/fleet/worker_command.h"
#include "phalanx/os/process_title.h"
#include "phalanx/worker/worker.h"

namespace phalanx::worker {

// What a worker has from its command line; everything else comes over its control socket.
struct WorkerContext {
  std::string program;                         // how it was started; its children are started so
  std::vector<fleet::WorkerWrapper> wrappers;  // of the ranks of a replica
  os::ProcessTitle title;
  const Seams& seams;

  // "phalanxd: rank dp0.tp1", for ps.
  void set_title(const std::string& name) { title.set("phalanxd: " + name); }
};

}  // namespace phalanx::worker
