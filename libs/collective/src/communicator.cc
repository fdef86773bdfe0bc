// SPDX-License-Identifier: Apache-2.0
#include "phalanx/collective/communicator.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/base/hash.h"

#include "meeting_point.h"
#include "segment_layout.h"
#include "tree_reducer.h"

namespace phalanx::collective {

struct Communicator::Impl {
  MeetingPoint point;
  TreeReducer reducer;
};

namespace {

// Adds the time between its ends to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(std::uint64_t& total_ns) : total_ns_(total_ns) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    total_ns_ += static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
  }

 private:
  std::uint64_t& total_ns_;
  SteadyTime start_ = std::chrono::steady_clock::now();
};

Status check_identity(const SegmentHeader& header, const SegmentSpec& expected) {
  const auto differs = [](std::string_view field, std::uint64_t want, std::uint64_t came) {
    return failed_precondition("the communicator segment has " + std::string(field) + " " +
                               std::to_string(came) + ", expected " + std::to_string(want));
  };
  if (header.epoch != expected.epoch.value()) {
    return differs("epoch", expected.epoch.value(), header.epoch);
  }
  if (header.world != expected.world) {
    return differs("world size", expected.world, header.world);
  }
  if (header.slot_bytes != expected.slot_bytes) {
    return differs("slot bytes", expected.slot_bytes, header.slot_bytes);
  }
  if (header.nonce != expected.nonce) {
    return failed_precondition("the communicator segment has another nonce than expected");
  }
  if (header.total_bytes != segment_bytes(header.world, header.slot_bytes)) {
    return differs("size", segment_bytes(header.world, header.slot_bytes), header.total_bytes);
  }
  return ok();
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Result<Communicator> Communicator::attach(std::span<std::byte> memory,
                                          const SegmentSpec& expected,
                                          RankId rank,
                                          Options options) {
  PHALANX_RETURN_IF_ERROR(check_spec(expected));
  if (rank.value() >= expected.world) {
    return invalid_argument("rank " + std::to_string(rank.value()) + " of a group of " +
                            std::to_string(expected.world));
  }
  PHALANX_TRY(const SegmentHeader header, read_header(memory));
  PHALANX_RETURN_IF_ERROR(check_identity(header, expected));
  if (memory.size() < header.total_bytes) {
    return invalid_argument("the communicator segment has " + std::to_string(header.total_bytes) +
                            " bytes, the mapping " + std::to_string(memory.size()));
  }
  if (rank_line_of(memory.data(), rank.value()).joined.exchange(1) != 0) {
    return failed_precondition("rank " + std::to_string(rank.value()) +
                               " has already taken part in epoch " +
                               std::to_string(expected.epoch.value()));
  }
  return Communicator(std::make_unique<Impl>(
      Impl{.point = MeetingPoint(memory, expected, rank.value(), options), .reducer = {}}));
}

std::uint32_t Communicator::rank() const {
  return impl_->point.rank();
}
std::uint32_t Communicator::world() const {
  return impl_->point.spec().world;
}
Epoch Communicator::epoch() const {
  return impl_->point.spec().epoch;
}
void Communicator::abort() {
  raise_abort(impl_->point.memory());
}
const AbortWord& Communicator::abort_word() const {
  return abort_word_of(static_cast<const std::byte*>(impl_->point.memory().data()));
}
const CommunicatorCounters& Communicator::counters() const {
  return impl_->point.counters();
}

Status Communicator::barrier() {
  const Stopwatch stopwatch(impl_->point.counters().elapsed_ns);
  PHALANX_RETURN_IF_ERROR(impl_->point.meet({Op::kBarrier, 0, 0}, 0));
  impl_->point.leave();
  return ok();
}

Status Communicator::all_gather(std::span<const std::byte> own, std::span<std::byte> all) {
  const Stopwatch stopwatch(impl_->point.counters().elapsed_ns);
  MeetingPoint& point = impl_->point;
  PHALANX_CHECK(all.size() == own.size() * point.spec().world, "all must hold every rank's bytes");
  const Call call{Op::kAllGather, own.size(), 0};
  std::size_t offset = 0;
  do {  // also once for an empty payload: it is a meeting all the same
    const std::size_t count = std::min(point.spec().slot_bytes, own.size() - offset);
    if (point.spec().world > 1 && count > 0) {
      std::memcpy(point.slot(point.rank()), own.data() + offset, count);
      point.counters().bytes += count;
    }
    PHALANX_RETURN_IF_ERROR(point.meet(call, offset));
    for (std::uint32_t rank = 0; rank < point.spec().world && count > 0; ++rank) {
      const std::byte* from = rank == point.rank() ? own.data() + offset : point.slot(rank);
      std::memmove(all.data() + rank * own.size() + offset, from, count);
    }
    point.leave();
    offset += count;
  } while (offset < own.size());
  return ok();
}

Status Communicator::reduce_tree(const TreePlan& plan,
                                 std::span<const float* const> own_nodes,
                                 std::span<float> out) {
  const Stopwatch stopwatch(impl_->point.counters().elapsed_ns);
  MeetingPoint& point = impl_->point;
  PHALANX_CHECK(plan.world() == point.spec().world, "the plan is for another world size");
  PHALANX_CHECK(plan.registers() <= TreeReducer::kMaxRegisters, "the tree is too deep");
  PHALANX_CHECK(own_nodes.size() == plan.nodes_of(point.rank()).size(), "one pointer per own node");
  const std::size_t stride = TreeReducer::stride(plan, point.spec().slot_bytes);
  const Call call{Op::kReduce, out.size_bytes(), plan.leaves()};
  std::size_t offset = 0;
  do {
    const TreeReducer::Chunk chunk{.plan = &plan,
                                   .own_nodes = own_nodes,
                                   .offset = offset,
                                   .count = std::min(stride, out.size() - offset)};
    impl_->reducer.publish(point, chunk);
    PHALANX_RETURN_IF_ERROR(point.meet(call, offset));
    impl_->reducer.sum(point, chunk, out.data() + offset);
    point.leave();
    offset += chunk.count;
  } while (offset < out.size());
  return ok();
}

Status Communicator::sanity() {
  MeetingPoint& point = impl_->point;
  const std::uint32_t world = point.spec().world;
  // One leaf per rank, and one float more than a slot holds, so that both halves take part.
  PHALANX_TRY(const TreePlan plan, TreePlan::make(world, world));
  const std::size_t elements = point.spec().slot_bytes / sizeof(float) + 1;
  const std::vector<float> ones(elements, 1.0F);
  std::vector<float> sums(elements);
  const float* own = ones.data();
  PHALANX_RETURN_IF_ERROR(reduce_tree(plan, std::span(&own, 1), sums));
  const auto wrong = std::find_if(
      sums.begin(), sums.end(), [world](float sum) { return sum != static_cast<float>(world); });
  if (wrong != sums.end()) {
    return point.fail(data_loss("rank " + std::to_string(point.rank()) + ": the sum of 1 over " +
                                std::to_string(world) + " ranks came out as " +
                                std::to_string(*wrong)));
  }

  const auto pattern = [&point, world](std::uint32_t from, std::uint32_t to) {
    return mix64(point.spec().nonce ^ mix64(std::uint64_t{from} * world + to + 1));
  };
  std::vector<std::uint64_t> mine(world);
  for (std::uint32_t to = 0; to < world; ++to) {
    mine[to] = pattern(point.rank(), to);
  }
  std::vector<std::uint64_t> all(std::size_t{world} * world);
  PHALANX_RETURN_IF_ERROR(
      all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all))));
  for (std::uint32_t from = 0; from < world; ++from) {
    if (all[std::size_t{from} * world + point.rank()] != pattern(from, point.rank())) {
      return point.fail(data_loss("rank " + std::to_string(point.rank()) +
                                  ": the pattern of rank " + std::to_string(from) + " differs"));
    }
  }
  return barrier();
}

}  // namespace phalanx::collective
