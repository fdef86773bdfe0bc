// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/weight_loader.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/obs/log.h"

#include "one_shot_child.h"
#include "placed_memory.h"

namespace phalanx::fleet {

WeightLoader::WeightLoader(os::EventLoop& loop, Start start, Progress progress, Done done)
    : loop_(loop), progress_(std::move(progress)), done_(std::move(done)) {
  OneShotChild::Task task;
  task.what = "loader";
  task.model = start.bootstrap.model_path;
  task.spawn = start.spawn;
  task.patience = start.patience;
  task.late = "loading made no progress for " + seconds_text(start.patience);
  task.bootstrap = [this, start = std::move(start)]() -> Result<supervise::Bootstrap> {
    auto arena = os::Memfd::reserve("phalanx-weights", start.bootstrap.arena_bytes);
    if (!arena) {
      return std::move(arena).error().with("weight arena");
    }
    arena_ = *std::move(arena);
    place(arena_, "phalanx-weights", start.nodes);
    return supervise::Bootstrap{OneShotChild::bootstrap_record(start.bootstrap, start.spawn),
                                {start.lifeline_pipe, arena_.fd()}};
  };
  task.on_record = [this](const wire::ControlRecord& record,
                          const std::vector<os::UniqueFd>&) -> Result<OneShotChild::Heard> {
    if (const auto* part = std::get_if<wire::ChildProgress>(&record)) {
      progress_(part->done, part->total);
      return OneShotChild::Heard::kProgress;
    }
    if (const auto* ready = std::get_if<wire::ChildReady>(&record)) {
      obs::log_info("weights_loaded", {{"bytes", arena_.size()}, {"fingerprint", ready->value}});
      return OneShotChild::Heard::kResult;
    }
    return data_loss("the loader sent something else than its progress or its end");
  };
  task.done = [this](Status status) { finish(std::move(status)); };
  child_ = std::make_unique<OneShotChild>(loop_, std::move(task));
}

WeightLoader::~WeightLoader() = default;

void WeightLoader::finish(Status status) {
  if (status) {
    status = arena_.seal_content();
  }
  Result<os::Memfd> result =
      status ? Result<os::Memfd>(std::move(arena_)) : Result<os::Memfd>(std::move(status).error());
  loop_.post([done = done_, shared = std::make_shared<Result<os::Memfd>>(std::move(result))] {
    done(std::move(*shared));
  });
}

}  // namespace phalanx::fleet
