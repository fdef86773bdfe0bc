// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/heap.h"

#include <malloc.h>

namespace phalanx::os {

namespace {

constexpr int kOwnMappingBytes = 128 << 10;
constexpr int kTrimBytes = 128 << 10;
constexpr int kArenas = 2;

}  // namespace

void keep_heap_small() {
  // NOLINTBEGIN(concurrency-mt-unsafe): glibc takes its own lock
  ::mallopt(M_MMAP_THRESHOLD, kOwnMappingBytes);
  ::mallopt(M_TRIM_THRESHOLD, kTrimBytes);
  ::mallopt(M_ARENA_MAX, kArenas);
  // NOLINTEND(concurrency-mt-unsafe)
}

void give_back_heap() {
  ::malloc_trim(0);
}

}  // namespace phalanx::os
