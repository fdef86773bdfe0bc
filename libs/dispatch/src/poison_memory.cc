// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/poison_memory.h"

#include <algorithm>
#include <random>

#include "phalanx/base/hash.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/codec.h"

namespace phalanx::dispatch {

namespace {

std::uint64_t with_seed(std::uint64_t digest, std::uint64_t seed) {
  return Fingerprint().add(digest).add(seed).value();
}

}  // namespace

PoisonMemory::PoisonMemory() {
  std::random_device random;
  salt_ = std::uint64_t{random()} << 32 | random();
}

// All that a replica is told of a request counts, whatever fields that has.
std::uint64_t PoisonMemory::digest(const Generation& generation) const {
  wire::Submit submit;
  submit.prompt_ids = generation.prompt_ids;
  submit.sampling = generation.sampling;
  submit.sampling.seed = 0;
  submit.stop = generation.stop;
  return Fingerprint()
      .add(salt_)
      .add_text(wire::encode(wire::LeaderFrame{{}, {}, std::move(submit)}))
      .value();
}

void PoisonMemory::add(const Generation& generation,
                       std::uint32_t choice,
                       std::size_t produced,
                       SteadyTime now) {
  const bool drawn = produced > 0 && generation.sampling.temperature >= step::kGreedyTemperature;
  const std::uint64_t any = digest(generation);
  entries_.push_back(
      {drawn ? with_seed(any, generation.sampling.seed) : any, drawn ? choice : 0, now});
  if (entries_.size() > kMaxRequests) {
    entries_.pop_front();
  }
}

bool PoisonMemory::knows(const Generation& generation, SteadyTime now) {
  while (!entries_.empty() && now - entries_.front().since >= kRemembered) {
    entries_.pop_front();
  }
  if (entries_.empty()) {
    return false;
  }
  const std::uint64_t any = digest(generation);
  const std::uint64_t drawn = with_seed(any, generation.sampling.seed);
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.choice < generation.choices && (entry.digest == any || entry.digest == drawn);
  });
}

}  // namespace phalanx::dispatch
