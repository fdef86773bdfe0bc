// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/policy.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>

namespace phalanx::dispatch {

namespace {

// The replica that was chosen last, among those that come and go.
class Turn {
 public:
  // The candidate behind it.
  [[nodiscard]] std::size_t next(std::span<const Candidate> candidates) const {
    const auto next =
        std::find_if(candidates.begin(), candidates.end(), [this](const Candidate& candidate) {
          return last_ && candidate.replica > *last_;
        });
    return next == candidates.end() ? 0 : static_cast<std::size_t>(next - candidates.begin());
  }

  std::size_t take(std::span<const Candidate> candidates, std::size_t index) {
    last_ = candidates[index].replica;
    return index;
  }

 private:
  std::optional<ReplicaId> last_;
};

class LeastPendingTokens final : public Policy {
 public:
  std::size_t choose(std::span<const Candidate> candidates) override {
    const std::size_t first = turn_.next(candidates);
    std::size_t best = first;
    for (std::size_t i = 1; i < candidates.size(); ++i) {
      const std::size_t index = (first + i) % candidates.size();
      if (candidates[index].pending_tokens < candidates[best].pending_tokens) {
        best = index;
      }
    }
    return turn_.take(candidates, best);
  }

 private:
  Turn turn_;
};

class RoundRobin final : public Policy {
 public:
  std::size_t choose(std::span<const Candidate> candidates) override {
    return turn_.take(candidates, turn_.next(candidates));
  }

 private:
  Turn turn_;
};

class PowerOfTwo final : public Policy {
 public:
  explicit PowerOfTwo(std::uint64_t seed) : random_(seed) {}

  std::size_t choose(std::span<const Candidate> candidates) override {
    if (candidates.size() == 1) {
      return 0;
    }
    const std::size_t first =
        std::uniform_int_distribution<std::size_t>(0, candidates.size() - 1)(random_);
    std::size_t second =
        std::uniform_int_distribution<std::size_t>(0, candidates.size() - 2)(random_);
    second += second >= first ? 1 : 0;
    return candidates[second].pending_tokens < candidates[first].pending_tokens ? second : first;
  }

 private:
  std::mt19937_64 random_;
};

class Random final : public Policy {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}

  std::size_t choose(std::span<const Candidate> candidates) override {
    return std::uniform_int_distribution<std::size_t>(0, candidates.size() - 1)(random_);
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, std::uint64_t seed) {
  std::unique_ptr<Policy> policy;
  if (name == "least_pending_tokens") {
    policy = std::make_unique<LeastPendingTokens>();
  } else if (name == "round_robin") {
    policy = std::make_unique<RoundRobin>();
  } else if (name == "power_of_two") {
    policy = std::make_unique<PowerOfTwo>(seed);
  } else if (name == "random") {
    policy = std::make_unique<Random>(seed);
  } else {
    std::string known;
    for (const std::string_view candidate : kPolicyNames) {
      known += (known.empty() ? "" : ", ") + std::string(candidate);
    }
    return invalid_argument("unknown routing policy \"" + std::string(name) +
                            "\"; expected one of " + known);
  }
  return policy;
}

}  // namespace phalanx::dispatch
