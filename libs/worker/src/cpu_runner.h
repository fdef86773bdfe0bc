// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "phalanx/engine/model_runner.h"
#include "phalanx/kernels/thread_team.h"
#include "phalanx/model/rank_model.h"
#include "phalanx/os/memfd.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"

#include "group_member.h"

namespace phalanx::worker {

// The model runner that computes: joins the rank loop of `engine` with the model of `model`, which
// do not know each other. The model reads the table that the loop keeps.
//
// Ownership: owns team and model; borrows the group and the KV memory.
// Threads: the rank's main thread.
class CpuRunner final : public engine::ModelRunner {
 public:
  CpuRunner(std::unique_ptr<kernels::ThreadTeam> team,
            std::unique_ptr<model::RankModel> rank_model,
            GroupMember& group,
            os::Mapping& kv);

  [[nodiscard]] Result<engine::RunnerIdentity> identity() override;
  [[nodiscard]] Status init(Epoch epoch) override;
  [[nodiscard]] Status sanity() override;
  [[nodiscard]] Status step(const step::SequenceTable& table,
                            std::span<const step::StepItem> items,
                            std::span<step::SampleResult> results) override;
  [[nodiscard]] Status clear(bool zero_kv) override;
  [[nodiscard]] engine::RunnerCounters counters() const override;

 private:
  std::unique_ptr<kernels::ThreadTeam> team_;
  std::unique_ptr<model::RankModel> model_;
  GroupMember& group_;
  os::Mapping& kv_;
};

}  // namespace phalanx::worker
