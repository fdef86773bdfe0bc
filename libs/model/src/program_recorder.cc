// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/tensor/shape.h"

#include "program_impl.h"

namespace phalanx::model {
namespace {

using Impl = Program::Impl;
constexpr std::uint32_t kNoValue = std::numeric_limits<std::uint32_t>::max();

bool conflict(const Impl& impl, const Impl::Task& a, const Impl::Task& b) {
  for (const Impl::Link& left : impl.links_of(a)) {
    for (const Impl::Link& right : impl.links_of(b)) {
      if (left.buffer == right.buffer &&
          (left.access != Access::kIn || right.access != Access::kIn)) {
        return true;
      }
    }
  }
  return false;
}

bool joins(const Impl& impl, const Stage& stage, const Impl::Task& task) {
  const CallableRow& row = callable_row(task.callable);
  if (stage.collective || row.meet != nullptr || stage.count == kMaxTasksPerStage) {
    return false;
  }
  for (std::uint32_t i = stage.first; i < stage.first + stage.count; ++i) {
    if (conflict(impl, impl.tasks[i], task)) {
      return false;
    }
  }
  return true;
}

// Tasks keep their order; one joins the stage before it when it depends on nothing in there.
void make_stages(Impl& impl) {
  for (std::uint32_t index = 0; index < impl.tasks.size(); ++index) {
    const Impl::Task& task = impl.tasks[index];
    const CallableRow& row = callable_row(task.callable);
    if (!impl.stages.empty() && joins(impl, impl.stages.back(), task)) {
      Stage& stage = impl.stages.back();
      ++stage.count;
      stage.name += " + " + task.name;
    } else {
      impl.stages.push_back({index, 1, row.meet != nullptr, task.name});
    }
  }
}

Status place_link(Impl& impl,
                  Impl::Link& link,
                  std::uint32_t task,
                  std::uint32_t stage,
                  std::vector<std::uint32_t>& current) {
  const Impl::Buffer& buffer = impl.buffers[link.buffer.value()];
  if (!buffer.is_scratch) {
    return ok();
  }
  std::uint32_t& value = current[link.buffer.value()];
  const bool fresh =
      link.access == Access::kOut && (value == kNoValue || impl.values[value].writer != task);
  if (fresh) {
    value = static_cast<std::uint32_t>(impl.values.size());
    impl.values.push_back({link.buffer, task, stage, stage, 0, buffer.bytes});
  }
  if (value == kNoValue || link.access == Access::kOutExisting) {
    return internal_error("task \"" + impl.tasks[task].name + "\" uses scratch buffer \"" +
                          buffer.name + "\" that no task before it has written");
  }
  impl.values[value].last_stage = stage;
  link.value = value;
  return ok();
}

// Follows every scratch buffer through the tasks.
Status make_values(Impl& impl) {
  std::vector<std::uint32_t> current(impl.buffers.size(), kNoValue);
  for (std::uint32_t stage = 0; stage < impl.stages.size(); ++stage) {
    const Stage& tasks = impl.stages[stage];
    for (std::uint32_t index = tasks.first; index < tasks.first + tasks.count; ++index) {
      const Impl::Task& task = impl.tasks[index];
      for (std::uint32_t i = 0; i < task.link_count; ++i) {
        PHALANX_RETURN_IF_ERROR(
            place_link(impl, impl.links[task.first_link + i], index, stage, current));
      }
    }
  }
  return ok();
}

// Placed values by the stages in which they live: few of the many that a program has.
using LivingValues = std::vector<std::vector<const Impl::Value*>>;

// Those that live at the same time as `value`, each once: in its first stage, or begun in a later.
std::vector<const Impl::Value*> neighbours_of(const Impl::Value& value,
                                              const LivingValues& living) {
  std::vector<const Impl::Value*> neighbours = living[value.first_stage];
  for (std::uint32_t stage = value.first_stage + 1; stage <= value.last_stage; ++stage) {
    for (const Impl::Value* other : living[stage]) {
      if (other->first_stage == stage) {
        neighbours.push_back(other);
      }
    }
  }
  return neighbours;
}

// The lowest place for `value` beside the placed values that live at the same time.
std::size_t lowest_offset(const Impl::Value& value, std::vector<const Impl::Value*> neighbours) {
  std::sort(neighbours.begin(), neighbours.end(), [](const auto* a, const auto* b) {
    return a->offset < b->offset;
  });
  std::size_t offset = 0;
  for (const Impl::Value* neighbour : neighbours) {
    if (offset + value.bytes <= neighbour->offset) {
      break;
    }
    offset = std::max(offset, neighbour->offset + neighbour->bytes);
  }
  return offset;
}

// Largest first: small values fill the gaps.
void place_values(Impl& impl) {
  std::vector<std::uint32_t> order(impl.values.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    impl.values[i].bytes = tensor::round_up(impl.values[i].bytes, tensor::kRowAlignment);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return impl.values[a].bytes > impl.values[b].bytes;
  });
  LivingValues living(impl.stages.size());
  for (const std::uint32_t index : order) {
    Impl::Value& value = impl.values[index];
    value.offset = lowest_offset(value, neighbours_of(value, living));
    impl.scratch_bytes = std::max(impl.scratch_bytes, value.offset + value.bytes);
    for (std::uint32_t stage = value.first_stage; stage <= value.last_stage; ++stage) {
      living[stage].push_back(&value);
    }
  }
  impl.dying.resize(impl.stages.size());
  for (std::uint32_t i = 0; i < impl.values.size(); ++i) {
    impl.dying[impl.values[i].last_stage].push_back(i);
  }
}

}  // namespace

ProgramRecorder::ProgramRecorder() : impl_(std::make_unique<Program::Impl>()) {}
ProgramRecorder::~ProgramRecorder() = default;

BufferId ProgramRecorder::scratch(std::string name, std::size_t bytes) {
  impl_->buffers.push_back({std::move(name), bytes, true, false});
  return BufferId(static_cast<std::uint32_t>(impl_->buffers.size() - 1));
}

BufferId ProgramRecorder::resident(std::string name, std::size_t bytes) {
  impl_->buffers.push_back({std::move(name), bytes, false, false});
  return BufferId(static_cast<std::uint32_t>(impl_->buffers.size() - 1));
}

void* ProgramRecorder::add_storage(std::size_t bytes) {
  impl_->storage.push_back(std::make_unique<std::byte[]>(bytes));
  return impl_->storage.back().get();
}

void* ProgramRecorder::add_task(Callable callable,
                                const std::string& name,
                                const void* args,
                                std::size_t bytes) {
  Impl::Task task;
  task.callable = callable;
  task.name = name;
  task.args = add_storage(bytes);
  task.args_bytes = bytes;
  task.first_link = static_cast<std::uint32_t>(impl_->links.size());
  std::memcpy(task.args, args, bytes);
  impl_->tasks.push_back(std::move(task));
  return impl_->tasks.back().args;
}

void ProgramRecorder::add_link(BufferId buffer,
                               Access access,
                               void* field,
                               std::size_t byte_offset) {
  PHALANX_CHECK(buffer.value() < impl_->buffers.size(), "a buffer of another program");
  PHALANX_CHECK(!impl_->tasks.empty(), "a link needs a task");
  impl_->links.push_back({buffer, access, field, byte_offset, 0});
  ++impl_->tasks.back().link_count;
}

Result<Program> ProgramRecorder::finish() && {
  for (const Impl::Task& task : impl_->tasks) {
    const CallableRow& row = callable_row(task.callable);
    if (task.args_bytes != row.args_bytes) {
      return internal_error("task \"" + task.name + "\": expected " +
                            std::to_string(row.args_bytes) + " bytes of arguments, found " +
                            std::to_string(task.args_bytes));
    }
    if (row.check == nullptr) {
      continue;
    }
    if (auto checked = row.check(task.args); !checked) {
      return internal_error("task \"" + task.name +
                            "\": " + std::string(checked.error().message()));
    }
  }
  make_stages(*impl_);
  PHALANX_RETURN_IF_ERROR(make_values(*impl_));
  place_values(*impl_);
  ++impl_->preparations;
  return Program(std::move(impl_));
}

}  // namespace phalanx::model
