// SPDX-License-Identifier: Apache-2.0
// phalanxd whose workers have the faults of faulty_worker.cc, for the process tests.
#include "program.h"

int main(int argc, char** argv) {
  return phalanx::app::run_phalanxd(argc, argv, "phalanx-worker-with-faults");
}
