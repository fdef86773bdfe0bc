// SPDX-License-Identifier: Apache-2.0
#include "support/faulty_transport.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "phalanx/base/hash.h"

namespace phalanx::testing {

wire::Sent FaultyTransport::send(const Passage& passage, Millis now) {
  Passage numbered = passage;
  numbered.index = frames_++;
  const Treatment treatment = judge_ ? judge_(numbered) : Treatment{};
  if (treatment.sent != wire::Sent::kQueued || treatment.lost) {
    return treatment.sent;
  }
  Delivery delivery{
      passage.direction, passage.rank, passage.incarnation, std::string(passage.bytes)};
  if (treatment.copy) {
    in_flight_.push_back({now + *treatment.copy, order_++, delivery});
  }
  in_flight_.push_back({now + treatment.delay, order_++, std::move(delivery)});
  return wire::Sent::kQueued;
}

std::vector<FaultyTransport::Delivery> FaultyTransport::due(Millis now) {
  std::sort(in_flight_.begin(), in_flight_.end(), [](const InFlight& a, const InFlight& b) {
    return std::tie(a.at, a.order) < std::tie(b.at, b.order);
  });
  std::vector<Delivery> arrived;
  std::size_t count = 0;
  while (count < in_flight_.size() && in_flight_[count].at <= now) {
    arrived.push_back(std::move(in_flight_[count++].delivery));
  }
  in_flight_.erase(in_flight_.begin(), in_flight_.begin() + static_cast<std::ptrdiff_t>(count));
  return arrived;
}

void FaultyTransport::cut(RankId rank, Incarnation incarnation, bool lose_replies) {
  std::erase_if(in_flight_, [&](const InFlight& frame) {
    return frame.delivery.rank == rank && frame.delivery.incarnation == incarnation &&
           (lose_replies || frame.delivery.direction == Direction::kToRank);
  });
}

FaultyTransport::Judge random_faults(std::uint64_t seed, const FaultRates& rates) {
  return [seed, rates](const Passage& passage) {
    std::uint64_t state = mix64(seed ^ mix64(passage.index + 1));
    const auto draw = [&](std::uint64_t below) {
      state = mix64(state + 0x9E3779B97F4A7C15ULL);
      return state % below;
    };
    const auto happens = [&](std::uint32_t rate) { return draw(1000) < rate; };
    const auto later = [&] {
      return 1 + static_cast<Millis>(draw(static_cast<std::uint64_t>(rates.longest_delay)));
    };
    Treatment treatment;
    treatment.lost = happens(rates.lose);
    if (happens(rates.delay)) {
      treatment.delay = later();
    }
    if (happens(rates.duplicate)) {
      treatment.copy = later();
    }
    if (passage.direction == Direction::kToRank) {
      if (happens(rates.would_block)) {
        treatment.sent = wire::Sent::kWouldBlock;
      } else if (happens(rates.closed)) {
        treatment.sent = wire::Sent::kClosed;
      }
    }
    return treatment;
  };
}

}  // namespace phalanx::testing
