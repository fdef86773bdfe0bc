// SPDX-License-Identifier: Apache-2.0
#include "meeting_point.h"

#include <chrono>
#include <string>

#include "phalanx/base/hash.h"
#include "phalanx/os/futex.h"

namespace phalanx::collective {
namespace {

constexpr Duration kSleepSlice = std::chrono::milliseconds(1);

std::string_view name_of(Op op) {
  switch (op) {
    case Op::kBarrier:
      return "barrier";
    case Op::kAllGather:
      return "all_gather";
    case Op::kReduce:
      return "reduce_tree";
  }
  return "operation";
}

// Whether counter value `arrived` is at or past `target`, both of which wrap.
bool reached(std::uint32_t arrived, std::uint32_t target) {
  return static_cast<std::int32_t>(arrived - target) >= 0;
}

}  // namespace

Status MeetingPoint::meet(const Call& call, std::uint64_t offset) {
  if (aborted()) {
    return abort_error();
  }
  ++counters_.meetings;
  const std::uint64_t tag = Fingerprint()
                                .add(static_cast<std::uint64_t>(call.op))
                                .add(call.bytes)
                                .add(call.detail)
                                .add(offset)
                                .value();
  publish(tag);
  for (std::uint32_t distance = 1; distance < spec_.world; ++distance) {
    const std::uint32_t peer = (rank_ + distance) % spec_.world;
    PHALANX_RETURN_IF_ERROR(wait_for(peer, meetings_ + 1));
    if (line(peer).tag[meetings_ % 2].load(std::memory_order_relaxed) != tag) {
      return fail(data_loss("rank " + std::to_string(peer) +
                            " called another operation than rank " + std::to_string(rank_) + " (" +
                            std::string(name_of(call.op)) + " of " + std::to_string(call.bytes) +
                            " bytes)"));
    }
  }
  return ok();
}

Error MeetingPoint::fail(Error error) {
  failed_ = true;
  raise_abort(memory_);
  return error;
}

Error MeetingPoint::abort_error() {
  failed_ = true;
  return phalanx::aborted("the communicator of epoch " + std::to_string(spec_.epoch.value()) +
                          " was aborted");
}

bool MeetingPoint::aborted() const {
#ifdef PHALANX_MUTATE_NO_ABORT_POLL
  return failed_;
#else
  return failed_ || abort_word_of(memory_.data()).load(std::memory_order_acquire) != 0;
#endif
}

void MeetingPoint::publish(std::uint64_t tag) {
  RankLine& own = line(rank_);
  own.tag[meetings_ % 2].store(tag, std::memory_order_relaxed);
  own.arrived.store(meetings_ + 1, std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) != 0) {
    os::futex_wake_all(own.arrived);
  }
}

// Waits until `peer` has come to the meeting that ends with arrived = `target`.
Status MeetingPoint::wait_for(std::uint32_t peer, std::uint32_t target) {
  const RankLine& peer_line = line(peer);
  for (std::uint32_t i = 0; i < options_.spin; ++i) {
    if (reached(peer_line.arrived.load(std::memory_order_acquire), target)) {
      return ok();
    }
    if (aborted()) {
      return abort_error();
    }
    __builtin_ia32_pause();
  }
  return sleep_until(peer, target);
}

Status MeetingPoint::sleep_until(std::uint32_t peer, std::uint32_t target) {
  RankLine& peer_line = line(peer);
  const SteadyTime begin = std::chrono::steady_clock::now();
  while (true) {
    // The order of these two, and of the store and the load in publish(), is total: either the peer
    // sees a sleeper and wakes it, or this rank sees the arrival.
    peer_line.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = peer_line.arrived.load(std::memory_order_seq_cst);
    if (!reached(seen, target)) {
      os::futex_wait(peer_line.arrived, seen, kSleepSlice);
    }
    peer_line.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (reached(peer_line.arrived.load(std::memory_order_acquire), target)) {
      return ok();
    }
    if (aborted()) {
      return abort_error();
    }
    if (options_.timeout && std::chrono::steady_clock::now() - begin >= *options_.timeout) {
      return fail(deadline_exceeded(
          "rank " + std::to_string(peer) + " did not come to meeting " + std::to_string(target) +
          " of epoch " + std::to_string(spec_.epoch.value()) + " within " +
          std::to_string(
              std::chrono::duration_cast<std::chrono::milliseconds>(*options_.timeout).count()) +
          " ms"));
    }
  }
}

}  // namespace phalanx::collective
