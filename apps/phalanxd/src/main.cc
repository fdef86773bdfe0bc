// SPDX-License-Identifier: Apache-2.0
#include "roles.h"

int main(int argc, char** argv) {
  return phalanx::app::run_phalanxd(argc, argv, {});
}
