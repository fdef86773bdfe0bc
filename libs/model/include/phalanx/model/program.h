// SPDX-License-Identifier: Apache-2.0
// Work as data: recorded once, run many times. A program is a list of tasks, each a callable of the
// static table (callables.h) and an argument block whose pointers are links to buffers, tagged with
// what the task does to them. From the tags follow the stages (tasks that do not depend on each
// other run together, one barrier after them) and where each scratch buffer lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/collective/communicator.h"
#include "phalanx/kernels/kernel_table.h"
#include "phalanx/kernels/thread_team.h"
#include "phalanx/model/callables.h"

namespace phalanx::model {

using BufferId = Id<struct BufferTag, std::uint32_t>;

enum class Access : std::uint8_t {
  kIn,           // read
  kOut,          // written; what was there before is gone
  kInOut,        // read and written; stays what it is
  kOutExisting,  // written into memory that somebody else provides
};

// What a step tells its observer, on the thread that runs the program.
struct ProgramObserver {
  void (*stage_begins)(void* context, std::uint32_t stage) = nullptr;
  void (*stage_ends)(void* context, std::uint32_t stage) = nullptr;
  void* context = nullptr;
};

// Tasks [first, first + count) of the program.
struct Stage {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool collective = false;
  std::string name;  // the tasks' names, for traces
};

// A recorded program and the memory that it is bound to.
// Threads: one at a time; run() uses the team's.
class Program {
 public:
  struct Impl;  // for the files of the program alone

  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;
  ~Program();

  [[nodiscard]] std::size_t scratch_bytes() const;
  [[nodiscard]] std::span<const Stage> stages() const;

  // Points every link of scratch buffers into `memory`.
  //
  // Errors: kInvalidArgument  smaller than scratch_bytes() or not 64-byte aligned
  Status bind_scratch(std::span<std::byte> memory);

  // Points every link of a resident buffer into `memory`.
  //
  // Errors: kInvalidArgument  smaller than it was recorded or not 64-byte aligned
  Status bind(BufferId buffer, std::span<std::byte> memory);

  // How often argument blocks were recorded or bound: constant while steps run.
  [[nodiscard]] std::uint64_t preparations() const;

  // Refreshes the argument blocks from `shape` in place and runs the stages.
  //
  // Allocates: nothing.
  // Errors: kFailedPrecondition  a buffer is bound to nothing (which)
  //         kAborted             the team was told to stop
  //         those of the communicator
  Status run(const StepShape& shape,
             kernels::ThreadTeam& team,
             const TaskRuntime& runtime,
             const ProgramObserver& observer);

 private:
  friend class ProgramRecorder;
  explicit Program(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class ProgramRecorder {
 public:
  ProgramRecorder();
  ProgramRecorder(const ProgramRecorder&) = delete;
  ProgramRecorder& operator=(const ProgramRecorder&) = delete;
  ~ProgramRecorder();

  // Memory of the program, alive between the first and the last task that names it.
  BufferId scratch(std::string name, std::size_t bytes);
  // Memory that outlives steps and is bound by name: weights, KV, the sequence table, results.
  BufferId resident(std::string name, std::size_t bytes);

  // Adds a task and returns its argument block, which the program owns: constants are those of
  // `args`, pointers are set by link().
  template <typename Args>
  Args* task(Callable callable, const std::string& name, const Args& args) {
    static_assert(std::is_trivially_copyable_v<Args>);
    return static_cast<Args*>(add_task(callable, name, &args, sizeof(Args)));
  }

  // An array that the program owns, for argument blocks that point to one.
  template <typename T>
  std::span<T> array(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    T* data = static_cast<T*>(add_storage(count * sizeof(T)));
    for (std::size_t i = 0; i < count; ++i) {
      data[i] = T{};
    }
    return {data, count};
  }

  // Says that the newest task uses `buffer`, and keeps *field at `byte_offset` in it. A null
  // `field` declares the use alone.
  template <typename T>
  void link(BufferId buffer, Access access, T** field, std::size_t byte_offset = 0) {
    add_link(buffer, access, field, byte_offset);
  }
  void uses(BufferId buffer, Access access) { add_link(buffer, access, nullptr, 0); }

  // Errors: kInternal  a task reads scratch that no task has written, or a task's argument block
  //                    is not of its callable, or holds weights that do not fit (check_matmul())
  [[nodiscard]] Result<Program> finish() &&;

 private:
  void* add_task(Callable callable, const std::string& name, const void* args, std::size_t bytes);
  void* add_storage(std::size_t bytes);
  void add_link(BufferId buffer, Access access, void* field, std::size_t byte_offset);

  std::unique_ptr<Program::Impl> impl_;
};

}  // namespace phalanx::model
