// SPDX-License-Identifier: Apache-2.0
// The ranks of one group in this process: each a thread with a thread team, memory and models of
// its own, as the rank processes of a server have them, joined by a communicator over a segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/kernels/isa.h"
#include "phalanx/kernels/thread_team.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/os/memfd.h"
#include "phalanx/step/item.h"
#include "phalanx/step/limits.h"

#include "engine_weights.h"

namespace phalanx::bench {

// A thread, and the team that it made on `cpus`.
// Threads: used by one thread.
class Crew {
 public:
  explicit Crew(os::CpuList cpus);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew();

  using Work = std::function<Status(kernels::ThreadTeam&)>;

  // Begins `work` on the thread; finish() waits for it and returns what it did. In pairs.
  //
  // Errors: those of `work` and of kernels::ThreadTeam::create()
  void begin(Work work);
  [[nodiscard]] Status finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What is computed: `sequences` are attached with all their blocks, then the steps run one after
// the other, each with the tokens that the ones before have drawn.
struct Job {
  step::KvFormat kv_format = step::KvFormat::kBf16;
  std::vector<step::SequenceAttach> sequences;
  std::vector<std::vector<step::StepItem>> steps;
  std::size_t warm_up = 0;  // the first steps, which are not timed
};

struct GroupOptions {
  std::vector<os::CpuList> cpus;  // one set for each rank
  step::RankLimits limits;
  kernels::Isa isa = kernels::Isa::kRef;
};

// Bytes of KV that the ranks of a group take together.
[[nodiscard]] Result<std::size_t> group_kv_bytes(const checkpoint::ModelConfig& config,
                                                 std::uint32_t ranks,
                                                 const step::RankLimits& limits);

// Groups may share the KV memory: one computes at a time, and nobody looks at what it computes.
// Ownership: borrows arenas and KV.
// Threads: one at a time.
class Group {
 public:
  // `kv` is of group_kv_bytes() and holds finite numbers only. Arenas are of one model.
  //
  // Errors: those of model::RankModel::create() and of what it needs
  [[nodiscard]] static Result<std::unique_ptr<Group>> create(const GroupOptions& options,
                                                             std::span<const Arena> arenas,
                                                             std::span<std::byte> kv);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  // Seconds from the moment when all ranks are ready for the first timed step to the end of the
  // last, with the weights of arenas[arena].
  //
  // Errors: those of model::RankModel::step()
  [[nodiscard]] Result<double> run(std::size_t arena, const Job& job);

 private:
  struct Rank;
  Group();
  [[nodiscard]] Status on_ranks(const std::function<Status(Rank&, kernels::ThreadTeam&)>& work);

  os::Mapping segment_;
  os::Mapping exchange_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace phalanx::bench
