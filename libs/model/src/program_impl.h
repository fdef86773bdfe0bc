// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/model/program.h"

namespace phalanx::model {

inline constexpr std::uint32_t kMaxTasksPerStage = 8;

struct Program::Impl {
  struct Buffer {
    std::string name;
    std::size_t bytes = 0;
    bool is_scratch = false;
    bool is_bound = false;
  };
  struct Task {
    Callable callable = Callable::kCallableCount;
    std::string name;
    void* args = nullptr;
    std::size_t args_bytes = 0;
    std::uint32_t first_link = 0;
    std::uint32_t link_count = 0;
  };
  struct Link {
    BufferId buffer;
    Access access = Access::kIn;
    void* field = nullptr;  // address of a pointer in an argument block or array; null = none
    std::size_t byte_offset = 0;
    std::uint32_t value = 0;  // index in `values`, for scratch
  };
  // What a scratch buffer holds from one write of the whole to the last use of it.
  struct Value {
    BufferId buffer;
    std::uint32_t writer = 0;       // task
    std::uint32_t first_stage = 0;  // both inclusive
    std::uint32_t last_stage = 0;
    std::size_t offset = 0;  // in the scratch memory
    std::size_t bytes = 0;
  };

  std::vector<Buffer> buffers;
  std::vector<Task> tasks;
  std::vector<Link> links;
  std::vector<Stage> stages;
  std::vector<Value> values;
  std::vector<std::vector<std::uint32_t>> dying;  // values by their last stage
  std::vector<std::unique_ptr<std::byte[]>> storage;
  std::size_t scratch_bytes = 0;
  std::span<std::byte> scratch;
  std::uint64_t preparations = 0;

  [[nodiscard]] std::span<const Link> links_of(const Task& task) const {
    return {links.data() + task.first_link, task.link_count};
  }
};

}  // namespace phalanx::model
