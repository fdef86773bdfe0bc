// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/collective/communicator.h"

namespace phalanx::collective {

// A segment in this process's memory, in which every rank is a thread.
class Group {
 public:
  explicit Group(std::uint32_t world, std::size_t slot_bytes = kMinSlotBytes)
      : spec_{.epoch = Epoch(7), .world = world, .nonce = 0xABCD, .slot_bytes = slot_bytes},
        pages_(segment_bytes(world, slot_bytes) / sizeof(Page)) {
    EXPECT_TRUE(initialize_segment(memory(), spec_));
  }

  [[nodiscard]] std::span<std::byte> memory() { return std::as_writable_bytes(std::span(pages_)); }
  [[nodiscard]] const SegmentSpec& spec() const { return spec_; }
  [[nodiscard]] Communicator::Options& options() { return options_; }

  [[nodiscard]] Communicator attach(std::uint32_t rank) {
    auto communicator = Communicator::attach(memory(), spec_, RankId(rank), options_);
    if (!communicator) {
      ADD_FAILURE() << communicator.error().to_string();
    }
    return *std::move(communicator);
  }

  // Runs `body` once per rank, each on its own thread, and returns their results in rank order.
  std::vector<Status> run(const std::function<Status(Communicator&)>& body) {
    std::vector<Status> results(spec_.world);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < spec_.world; ++rank) {
      threads.emplace_back([this, rank, &body, &results] {
        Communicator communicator = attach(rank);
        results[rank] = body(communicator);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    return results;
  }

  // As run(), and every rank must succeed.
  void run_ok(const std::function<Status(Communicator&)>& body) {
    for (const Status& status : run(body)) {
      EXPECT_TRUE(status) << status.error().to_string();
    }
  }

 private:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  SegmentSpec spec_;
  Communicator::Options options_{.timeout = std::chrono::seconds(30), .spin = 2000};
  std::vector<Page> pages_;
};

[[nodiscard]] inline Code code_of(const Status& status) {
  return status ? Code{} : status.error().code();
}

}  // namespace phalanx::collective
