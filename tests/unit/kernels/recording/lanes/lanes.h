// SPDX-License-Identifier: Apache-2.0
#pragma once

// Lanes that write down what is fetched, in place of those that fetch: for fetch_test.cc.

#include <cstddef>
#include <cstdint>
#include <vector>

#define PHALANX_LANES inline

namespace phalanx::kernels {
namespace {

struct Fetched {
  std::vector<std::uintptr_t> first;   // addresses, into the first cache
  std::vector<std::uintptr_t> second;  // into the second
};

Fetched& fetched() {
  static Fetched all;
  return all;
}

PHALANX_LANES void prefetch(const void* p) {
  fetched().first.push_back(reinterpret_cast<std::uintptr_t>(p));
}
PHALANX_LANES void prefetch_second(const void* p) {
  fetched().second.push_back(reinterpret_cast<std::uintptr_t>(p));
}

}  // namespace
}  // namespace phalanx::kernels
