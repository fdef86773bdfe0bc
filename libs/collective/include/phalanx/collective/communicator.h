// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "phalanx/base/clock.h"
#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/collective/segment.h"
#include "phalanx/collective/summation_tree.h"

namespace phalanx::collective {

// What the operations of a communicator have cost so far.
struct CommunicatorCounters {
  std::uint64_t meetings = 0;    // of the group; an operation takes one or more
  std::uint64_t bytes = 0;       // published by this rank
  std::uint64_t elapsed_ns = 0;  // inside operations, waiting included
};

// One rank's membership in its tensor-parallel group for one epoch: sums, gathers and barriers over
// shared memory. Every rank calls the same operations in the same order with the same sizes; a rank
// that does not is found at the meeting (kDataLoss on all of them).
//
// Ownership: borrows the mapping, which must outlive it.
// Threads:   one at a time. abort() and abort_word() may be used from any thread.
// Blocks:    until every rank has come. Each wait polls the abort word: a short spin, then futex
//            sleeps of at most 1 ms.
// Failure:   kAborted           the abort word is raised
//            kDeadlineExceeded  a rank did not come within `timeout`, if there is one
//            kDataLoss          ranks called different operations
//            A failed operation leaves its output undefined and raises the abort word, so that the
//            other ranks are freed; from then on every operation returns kAborted. The remedy is a
//            new epoch.
// Cost:      an operation allocates nothing. With world 1 it is a memory copy.
class Communicator {
 public:
  struct Options {
    // Of one meeting. None for a rank that is watched: whether its peers are slow or hang is judged
    // by their progress, and the abort word ends the wait (S3).
    std::optional<Duration> timeout;
    std::uint32_t spin = 2000;  // pauses before the first futex sleep
  };

  // Checks that `memory` is the segment that `expected` names and takes the place of `rank` in it.
  // Waits for nobody.
  //
  // Errors: kInvalidArgument     rank not below world, memory too small or misaligned
  //         kFailedPrecondition  the segment is another one (magic, version, size, epoch, world,
  //                              nonce), or this rank has already taken part in it
  [[nodiscard]] static Result<Communicator> attach(std::span<std::byte> memory,
                                                   const SegmentSpec& expected,
                                                   RankId rank,
                                                   Options options);

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  [[nodiscard]] std::uint32_t rank() const;
  [[nodiscard]] std::uint32_t world() const;
  [[nodiscard]] Epoch epoch() const;

  // Returns when every rank has called it.
  [[nodiscard]] Status barrier();

  // Concatenates the `own` of all ranks in rank order into `all`; all.size() == world · own.size().
  // `own` has the same size on every rank and may be all's own part.
  [[nodiscard]] Status all_gather(std::span<const std::byte> own, std::span<std::byte> all);

  // Sums the tree of `plan`: every rank obtains the same bits in `out`.
  //
  //   own_nodes  one pointer per node in plan.nodes_of(rank()), each to out.size() floats: the
  //              node's value, summed by the caller in tree order (tree_adds)
  //   out        the sum; may be one of own_nodes
  //
  // Arithmetic: one fp32 addition per tree step and element under the caller's MXCSR, which must be
  //             the one of docs/arithmetic.md.
  // Requires:   plan.world() == world()
  [[nodiscard]] Status reduce_tree(const TreePlan& plan,
                                   std::span<const float* const> own_nodes,
                                   std::span<float> out);

  // Proves that the group is what it should be: sums 1 over the ranks through both halves of every
  // slot and compares with the world size, then checks a pattern of every rank for every other.
  //
  // Errors: kDataLoss  a sum or a pattern differs; the message names the rank
  [[nodiscard]] Status sanity();

  // Raises the abort word for the whole group.
  void abort();
  [[nodiscard]] const AbortWord& abort_word() const;

  [[nodiscard]] const CommunicatorCounters& counters() const;

 private:
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace phalanx::collective
