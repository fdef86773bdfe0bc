// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "phalanx/engine/sim_runner.h"

#include "group_member.h"

namespace phalanx::worker {

// What the simulated runner needs of the real world: the group's communicator, and sleeping that
// still moves the progress word and polls the abort word.
//
// Ownership: borrows both.
// Threads: the rank's main thread.
class GroupSimHost final : public engine::SimHost {
 public:
  GroupSimHost(GroupMember& group, std::atomic<std::uint64_t>& progress)
      : group_(group), progress_(progress) {}

  [[nodiscard]] Status join(Epoch epoch) override { return group_.join(epoch); }
  [[nodiscard]] Status sanity() override { return group_.communicator()->sanity(); }
  [[nodiscard]] Status barrier() override { return group_.communicator()->barrier(); }
  [[nodiscard]] Status wait(Duration duration) override;

 private:
  GroupMember& group_;
  std::atomic<std::uint64_t>& progress_;
};

}  // namespace phalanx::worker
