// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/program.h"

#include <array>
#include <cstring>
#include <utility>

#include "phalanx/tensor/shape.h"

#include "program_impl.h"

namespace phalanx::model {
namespace {

#ifdef NDEBUG
constexpr bool kPoison = false;
#else
// Debug builds make stale scratch visible: every value that has died becomes NaN.
constexpr bool kPoison = true;
#endif
constexpr int kPoisonByte = 0xFF;  // NaN as fp32 and as bf16

void set_field(void* field, std::byte* address) {
  if (field != nullptr) {
    std::memcpy(field, &address, sizeof(address));
  }
}

Error too_small(const std::string& name, std::size_t expected, std::size_t found) {
  return invalid_argument("buffer \"" + name + "\": expected at least " + std::to_string(expected) +
                          " aligned bytes, found " + std::to_string(found));
}

bool is_aligned(std::span<const std::byte> memory) {
  return reinterpret_cast<std::uintptr_t>(memory.data()) % tensor::kRowAlignment == 0;
}

Status check_bound(const Program::Impl& impl) {
  for (const Program::Impl::Buffer& buffer : impl.buffers) {
    if (!buffer.is_bound) {
      return failed_precondition("buffer \"" + buffer.name +
                                 "\": expected to be bound, found nothing");
    }
  }
  return ok();
}

// The tiles of a stage are those of its tasks, one task after the other. What other threads read
// of it first lies in one line.
struct alignas(64) StageTiles {
  struct Task {
    const void* args = nullptr;
    const CallableRow* row = nullptr;
    std::uint32_t end = 0;
  };

  const TaskRuntime* runtime = nullptr;
  std::uint32_t count = 0;  // of tasks
  std::uint32_t total = 0;
  std::array<Task, kMaxTasksPerStage> tasks{};

  void operator()(std::uint32_t tile, std::uint32_t thread) const {
    const Task* task = tasks.data();
    std::uint32_t first = 0;
    for (; tile >= task->end; ++task) {
      first = task->end;
    }
    task->row->run(task->args, *runtime, tile - first, thread);
  }
};

void refresh(const Program::Impl& impl,
             const Stage& stage,
             const StepShape& shape,
             StageTiles* tiles) {
  tiles->count = 0;
  tiles->total = 0;
  for (std::uint32_t i = stage.first; i < stage.first + stage.count; ++i) {
    const Program::Impl::Task& task = impl.tasks[i];
    const CallableRow& row = callable_row(task.callable);
    const auto count = static_cast<std::uint32_t>(row.refresh(task.args, shape));
    if (count != 0) {
      tiles->total += count;
      tiles->tasks[tiles->count] = {task.args, &row, tiles->total};
      ++tiles->count;
    }
  }
}

Status meet(const Program::Impl::Task& task, const StepShape& shape, const TaskRuntime& runtime) {
  const CallableRow& row = callable_row(task.callable);
  if (row.refresh(task.args, shape) == 0) {
    return ok();
  }
  return row.meet(task.args, runtime);
}

}  // namespace

Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

std::size_t Program::scratch_bytes() const {
  return impl_->scratch_bytes;
}
std::span<const Stage> Program::stages() const {
  return impl_->stages;
}
std::uint64_t Program::preparations() const {
  return impl_->preparations;
}

Status Program::bind_scratch(std::span<std::byte> memory) {
  if (memory.size() < impl_->scratch_bytes || !is_aligned(memory)) {
    return too_small("scratch", impl_->scratch_bytes, memory.size());
  }
  impl_->scratch = memory.first(impl_->scratch_bytes);
  if (kPoison && !impl_->scratch.empty()) {
    std::memset(impl_->scratch.data(), kPoisonByte, impl_->scratch.size());
  }
  for (const Impl::Link& link : impl_->links) {
    Impl::Buffer& buffer = impl_->buffers[link.buffer.value()];
    if (buffer.is_scratch) {
      buffer.is_bound = true;
      set_field(link.field, memory.data() + impl_->values[link.value].offset + link.byte_offset);
    }
  }
  ++impl_->preparations;
  return ok();
}

Status Program::bind(BufferId buffer, std::span<std::byte> memory) {
  Impl::Buffer& bound = impl_->buffers[buffer.value()];
  if (memory.size() < bound.bytes || !is_aligned(memory)) {
    return too_small(bound.name, bound.bytes, memory.size());
  }
  bound.is_bound = true;
  for (const Impl::Link& link : impl_->links) {
    if (link.buffer == buffer) {
      set_field(link.field, memory.data() + link.byte_offset);
    }
  }
  ++impl_->preparations;
  return ok();
}

Status Program::run(const StepShape& shape,
                    kernels::ThreadTeam& team,
                    const TaskRuntime& runtime,
                    const ProgramObserver& observer) {
  PHALANX_RETURN_IF_ERROR(check_bound(*impl_));
  StageTiles tiles;
  tiles.runtime = &runtime;
  for (std::uint32_t index = 0; index < impl_->stages.size(); ++index) {
    const Stage& stage = impl_->stages[index];
    if (observer.stage_begins != nullptr) {
      observer.stage_begins(observer.context, index);
    }
    if (stage.collective) {
      PHALANX_RETURN_IF_ERROR(meet(impl_->tasks[stage.first], shape, runtime));
    } else {
      refresh(*impl_, stage, shape, &tiles);
      if (tiles.total != 0 && !team.parallel_for(tiles.total, tiles)) {
        return aborted("stopped in stage \"" + stage.name + "\"");
      }
    }
    if (observer.stage_ends != nullptr) {
      observer.stage_ends(observer.context, index);
    }
    if (kPoison) {
      for (const std::uint32_t value : impl_->dying[index]) {
        const Impl::Value& dead = impl_->values[value];
        std::memset(impl_->scratch.data() + dead.offset, kPoisonByte, dead.bytes);
      }
    }
  }
  return ok();
}

}  // namespace phalanx::model
