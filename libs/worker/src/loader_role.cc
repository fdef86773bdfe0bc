// SPDX-License-Identifier: Apache-2.0
#include "loader_role.h"

#include <algorithm>
#include <utility>

#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/checkpoint/config_record.h"
#include "phalanx/checkpoint/model_folder.h"
#include "phalanx/fleet/child_start.h"
#include "phalanx/kernels/float_mode.h"
#include "phalanx/model/weight_arena.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/os/memfd.h"

namespace phalanx::worker {

namespace {

constexpr std::size_t kPieceBytes = std::size_t{64} << 20;

// Gives the arena its memory, a piece at a time.
Status back(fleet::ChildStart& start, const os::Memfd& arena) {
  for (std::size_t at = 0; at < arena.size(); at += kPieceBytes) {
    PHALANX_RETURN_IF_ERROR(arena.back(at, std::min(kPieceBytes, arena.size() - at)));
    start.bump_progress();
    start.tell(wire::ChildProgress{"making room for weights", 0, arena.size()});
  }
  return ok();
}

// Nothing is mapped afterwards: the leader seals the arena once it is told.
Result<std::uint64_t> load(fleet::ChildStart& start, const wire::LoaderBootstrap& bootstrap) {
  PHALANX_TRY(os::UniqueFd fd, start.take_fd(0));
  PHALANX_TRY(const os::Memfd arena, os::Memfd::adopt(std::move(fd), bootstrap.arena_bytes));
  PHALANX_TRY(const checkpoint::ModelConfig config,
              checkpoint::from_record(bootstrap.model_config));
  checkpoint::ModelFolder folder(bootstrap.model_path);
  PHALANX_TRY(const checkpoint::Checkpoint checkpoint, checkpoint::Checkpoint::open(folder));
  if (checkpoint.structure_hash() != bootstrap.structure_hash) {
    return failed_precondition(
        bootstrap.model_path +
        ": expected the files that this start was planned from, found others: "
        "they have changed since; start again when they are complete");
  }
  PHALANX_RETURN_IF_ERROR(back(start, arena));
  PHALANX_TRY(os::Mapping mapping, arena.map(os::Access::kReadWrite));
  PHALANX_RETURN_IF_ERROR(mapping.exclude_from_dumps());
  model::FillOptions options;
  options.threads = static_cast<std::uint32_t>(os::allowed_cpus().size());
  options.ranks = bootstrap.tp;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    start.bump_progress();
    start.tell(wire::ChildProgress{"loading weights", done, total});
  };
  PHALANX_TRY(const std::uint64_t fingerprint,
              model::fill_arena(checkpoint, config, mapping.bytes(), options));
  obs::log_info("weights_packed", {{"bytes", mapping.size()}});
  return fingerprint;
}

}  // namespace

int run_loader(WorkerContext& context) {
  kernels::set_float_mode();
  wire::LoaderBootstrap bootstrap;
  auto start = fleet::ChildStart::begin(&bootstrap);
  if (!start) {
    return fleet::fail_child(nullptr, start.error());
  }
  context.set_title("loader");
  return fleet::live_child(**start, [&]() -> Status {
    PHALANX_TRY(const std::uint64_t fingerprint, load(**start, bootstrap));
    (*start)->tell(wire::ChildReady{fingerprint});
    return ok();
  });
}

}  // namespace phalanx::worker
