// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "phalanx/base/result.h"

namespace phalanx::kernels {

// What a team asks and tells between two tiles.
struct TeamHooks {
  // True: give up the rest of the tiles. Every thread asks, so it must be cheap and thread-safe: a
  // word that hardly ever changes.
  bool (*should_stop)(void* context) = nullptr;
  // For a progress word: after each tile of the thread that made the team, and only of that one,
  // since all threads would fight for the word.
  void (*tile_finished)(void* context) = nullptr;
  void* context = nullptr;
};

// A reference to a callable `void(std::uint32_t tile, std::uint32_t thread)`; it must not throw.
// Valid as long as the callable; made for passing a lambda down a call.
class TileBody {
 public:
  TileBody() = default;
  template <typename Callable>
  // NOLINTNEXTLINE(google-explicit-constructor): a lambda is the argument
  TileBody(const Callable& callable)
      : object_(&callable), call_([](const void* object, std::uint32_t tile, std::uint32_t thread) {
          (*static_cast<const Callable*>(object))(tile, thread);
        }) {}

  void operator()(std::uint32_t tile, std::uint32_t thread) const { call_(object_, tile, thread); }

  [[nodiscard]] const void* object() const { return object_; }

 private:
  const void* object_ = nullptr;
  void (*call_)(const void*, std::uint32_t, std::uint32_t) = nullptr;
};

// The compute threads of a rank: one per given cpu, made once and pinned. The thread that made the
// team is its thread 0 and works along; it must be the one that calls parallel_for().
//
// The tiles of a job are divided into one contiguous run for each thread, taken in order: best for
// streaming weights. A thread that is done takes over tiles from the end of the longest run that is
// left, so a slow core, or tiles of unequal cost, hold nobody up for longer than a tile; and a
// thread that does not get to run, because another program has its core, is not waited for.
//
// Threads wait by spinning for a short time, then sleeping in the kernel. Which thread runs a tile
// never changes a result: tiles write disjoint outputs and each tile is computed in one way.
//
// Ownership: owns its threads; the destructor stops and joins them.
// Threads:   parallel_for() on the creating thread only, not from inside a body.
class ThreadTeam {
 public:
  // Makes cpus.size() − 1 threads, pins each to its cpu and the calling thread to cpus[0], and sets
  // the float mode of all of them. An empty `cpus` is a team of one that is not pinned.
  //
  // Errors: kInvalidArgument    a thread could not be pinned, with its cpu and why; the calling one
  //                             may be
  //         kResourceExhausted  a thread could not be made
  [[nodiscard]] static Result<std::unique_ptr<ThreadTeam>> create(std::span<const int> cpus,
                                                                  TeamHooks hooks = {});

  // `size` threads that run where the calling one may. Requires size ≥ 1.
  [[nodiscard]] static Result<std::unique_ptr<ThreadTeam>> create_unpinned(std::uint32_t size,
                                                                           TeamHooks hooks = {});

  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ThreadTeam(ThreadTeam&&) = delete;
  ThreadTeam& operator=(ThreadTeam&&) = delete;
  ~ThreadTeam();

  [[nodiscard]] std::uint32_t size() const;

  // Runs body(tile, thread) once for each tile in [0, tiles) and returns when all are done; writes
  // of the bodies are visible to the caller. Returns false when should_stop() said so: some tiles
  // may then not have run, none is running any more.
  //
  // Allocates nothing.
  [[nodiscard]] bool parallel_for(std::uint32_t tiles, TileBody body);

 private:
  struct Shared;
  explicit ThreadTeam(std::unique_ptr<Shared> shared);
  std::unique_ptr<Shared> shared_;
};

}  // namespace phalanx::kernels
