// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace phalanx::os {

// Has the heap of this process give back what is freed: blocks of 128 KB and more are mappings of
// their own and go as soon as they are freed, and what is free at the end of a heap goes from 128
// KB on. By default the allocator learns from the largest block that was ever freed (up to 32 MB)
// to keep as much. Its threads share two arenas.
//
// Before the first thread is started.
void keep_heap_small();

// Gives back whole pages that are free between blocks in use, which keep_heap_small() does not.
//
// Threads: any. Blocks: about a millisecond for each 10 MB that go, during which threads that share
// an arena with those wait for it.
void give_back_heap();

}  // namespace phalanx::os
