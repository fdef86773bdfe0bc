// SPDX-License-Identifier: Apache-2.0
// Latency of the collectives by size. Ranks are threads
// over one segment; between processes the memory and the futexes are the same. One line of JSON per
// size.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/collective/communicator.h"
#include "phalanx/os/cpu_set.h"

#include "machine.h"
#include "usage.h"

namespace phalanx::bench {
namespace {

constexpr char kUsage[] =
    "usage: reduction_latency [RANKS [SLOT_BYTES]]\n"
    "1 to 64 ranks (2), bytes of the slot that each has in the communicator, a multiple of 64";

using collective::Communicator;

struct alignas(4096) Page {
  std::byte bytes[4096];
};

class Bench {
 public:
  Bench(std::uint32_t world, std::size_t slot_bytes)
      : spec_{.epoch = Epoch(1), .world = world, .nonce = 1, .slot_bytes = slot_bytes},
        pages_(collective::segment_bytes(world, slot_bytes) / sizeof(Page)) {}

  // Runs `operation` `rounds` times on every rank; the times are those of rank 0.
  void measure(const std::string& name,
               std::size_t bytes,
               int rounds,
               const std::function<Status(Communicator&)>& operation) {
    const auto memory = std::as_writable_bytes(std::span(pages_));
    PHALANX_CHECK(collective::initialize_segment(memory, spec_), "segment");
    std::vector<std::uint64_t> times;
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < spec_.world; ++rank) {
      threads.emplace_back([&, rank] {
        const os::CpuList cpus = os::allowed_cpus();
        PHALANX_CHECK(os::pin_current_thread({cpus[rank % cpus.size()]}), "pin");
        auto communicator = Communicator::attach(memory, spec_, RankId(rank), {});
        PHALANX_CHECK(communicator, "attach");
        PHALANX_CHECK(communicator->sanity(), "sanity");
        for (int round = 0; round < rounds; ++round) {
          const auto start = std::chrono::steady_clock::now();
          PHALANX_CHECK(operation(*communicator), "operation");
          if (rank == 0 && round >= rounds / 10) {
            times.push_back(static_cast<std::uint64_t>(
                std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count()));
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    std::printf(
        "{\"bench\":\"reduction_latency\",\"operation\":\"%s\",\"bytes\":%zu,\"ranks\":%u,"
        "\"slot_bytes\":%zu,%s,%s}\n",
        name.c_str(),
        bytes,
        spec_.world,
        spec_.slot_bytes,
        percentiles_json(times).c_str(),
        machine_.c_str());
  }

 private:
  std::string machine_ = machine_json();
  collective::SegmentSpec spec_;
  std::vector<Page> pages_;
};

void measure_reduce(Bench& bench, const collective::TreePlan& plan, std::size_t bytes) {
  const std::size_t elements = bytes / sizeof(float);
  std::vector<std::vector<float>> nodes(plan.nodes().size(), std::vector<float>(elements, 1.0F));
  std::vector<std::vector<float>> sums(plan.world(), std::vector<float>(elements));
  bench.measure("reduce_tree", bytes, bytes > 65536 ? 2000 : 20000, [&](Communicator& group) {
    std::vector<const float*> own;
    for (std::uint32_t node = plan.first_node(group.rank());
         node < plan.first_node(group.rank() + 1);
         ++node) {
      own.push_back(nodes[node].data());
    }
    return group.reduce_tree(plan, own, sums[group.rank()]);
  });
}

int run(std::uint32_t world, std::size_t slot_bytes) {
  const auto plan = collective::TreePlan::make(16, world);
  if (!plan) {
    std::fprintf(stderr, "reduction_latency: %s\n", plan.error().message().c_str());
    return 64;
  }
  Bench bench(world, slot_bytes);
  bench.measure("barrier", 0, 20000, [](Communicator& group) { return group.barrier(); });
  for (const std::size_t bytes : {128U, 1024U, 4096U, 16384U, 65536U, 262144U, 1048576U}) {
    measure_reduce(bench, *plan, bytes);
  }
  return 0;
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  if (phalanx::bench::asks_for_help(argc, argv)) {
    std::puts(phalanx::bench::kUsage);
    return 0;
  }
  namespace collective = phalanx::collective;
  const auto world = phalanx::bench::number_at(argc, argv, 1, 2, 1, collective::kMaxWorld);
  const auto slot_bytes = phalanx::bench::number_at(argc,
                                                    argv,
                                                    2,
                                                    collective::kDefaultSlotBytes,
                                                    collective::kMinSlotBytes,
                                                    collective::kMaxSlotBytes);
  if (argc > 3 || !world || !slot_bytes || *slot_bytes % 64 != 0) {
    std::fprintf(stderr, "%s\n", phalanx::bench::kUsage);
    return 64;
  }
  return phalanx::bench::run(static_cast<std::uint32_t>(*world),
                             static_cast<std::size_t>(*slot_bytes));
}
