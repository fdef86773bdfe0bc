// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "phalanx/fleet/worker_command.h"

#include "program.h"

int main(int argc, char** argv) {
  return phalanx::app::run_phalanxd(argc, argv, std::string(phalanx::fleet::kWorkerProgram));
}
