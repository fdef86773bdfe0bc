// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include "roles.h"

int main(int argc, char** argv) {
  try {
    return phalanx::app::run_phalanxd(argc, argv, {});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "phalanxd: unexpected: %s\n", error.what());
    return 70;
  }
}
