// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/vocab.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "scalar_math.h"

namespace phalanx::kernels {

namespace {

constexpr std::uint32_t kSignBit = 0x80000000;
constexpr std::uint32_t kSmallestNormal = 0x00800000;
constexpr std::uint32_t kInfinityBits = 0x7F800000;

// As logit_key, with NaNs below everything.
std::uint32_t rank_key(float logit) {
  const auto bits = std::bit_cast<std::uint32_t>(logit);
  return (bits & ~kSignBit) > kInfinityBits ? 0 : logit_key(logit);
}

}  // namespace

VocabPeak VocabPeak::merge(const VocabPeak& a, const VocabPeak& b) {
  const bool finite = a.finite && b.finite;
  const bool b_wins =
      a.id < 0 || (b.id >= 0 && (b.value > a.value || (b.value == a.value && b.id < a.id)));
  VocabPeak result = b_wins ? b : a;
  result.finite = finite;
  return result;
}

std::uint32_t logit_key(float logit) {
  const auto bits = std::bit_cast<std::uint32_t>(logit);
  if ((bits & ~kSignBit) < kSmallestNormal) {
    return kSignBit;  // zeros and denormals are one number to the arithmetic
  }
  return (bits & kSignBit) != 0 ? ~bits : bits | kSignBit;
}

float logit_of_key(std::uint32_t key) {
  return std::bit_cast<float>((key & kSignBit) != 0 ? key & ~kSignBit : ~key);
}

std::int64_t mass_target(float p, std::int64_t total) {
  const double product = static_cast<double>(p) * static_cast<double>(total);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(product)));
}

float log_softmax(float logit, float maximum, std::int64_t mass) {
  const double log_mass = scalar::log(static_cast<double>(mass) * 0x1p-30);
  return static_cast<float>((static_cast<double>(logit) - static_cast<double>(maximum)) - log_mass);
}

float mass_floor(float maximum) {
  constexpr float kRange = 22.0F;
  return maximum - kRange;
}

// The largest token is kept, so all have a mass of 2^30 or more together. Where those below the
// floor hold less than a share 1 − p of that, a prefix without them reaches the target. What this
// leaves out is more than rounding adds: to a mass below the floor one and a few parts in 10^6, to
// the target less than 16.
float top_p_floor(float maximum, float p, std::uint32_t tokens) {
  const double spare = (1.0 - static_cast<double>(p)) * 0x1p30 - 16.0;
  const double each = spare / std::max(tokens, 1U) - 1.0;
  if (each < 1.0) {
    return mass_floor(maximum);
  }
  const double logit = static_cast<double>(maximum) + scalar::log(each * (0x1p-30 * 0.9999));
  const auto nearest = static_cast<float>(logit);
  const float floor = static_cast<double>(nearest) > logit
                          ? std::nextafter(nearest, -std::numeric_limits<float>::infinity())
                          : nearest;
  return std::max(floor, mass_floor(maximum));
}

// 4: what rounding may take from the difference. Where it could take more, neighbours are further
// apart than any noise reaches.
float noise_floor(float maximum) {
  constexpr float kRange = 32.0F;
  static_assert(kRange > kMostNoise - kLeastNoise + 4.0F);
  return maximum - kRange;
}

float min_p_floor(float maximum, float min_p) {
  return static_cast<float>(static_cast<double>(maximum) + scalar::log(static_cast<double>(min_p)));
}

float penalised_logit(
    float logit, const TokenPenalty& penalty, bool seen, std::uint32_t produced, float bias) {
  float value = logit;
  if (seen) {
    value = value > 0.0F ? value / penalty.repetition : value * penalty.repetition;
  }
  if (produced > 0) {
    value = value - penalty.presence;
    value = value - penalty.frequency * static_cast<float>(produced);
  }
  return value + bias;
}

bool before(const VocabCandidate& a, const VocabCandidate& b) {
  const std::uint32_t key_a = rank_key(a.logit);
  const std::uint32_t key_b = rank_key(b.logit);
  return key_a > key_b || (key_a == key_b && a.id < b.id);
}

std::size_t vocab_top(const VocabSlice& slice, std::span<VocabCandidate> out) {
  std::size_t kept = 0;
  for (std::uint32_t i = 0; i < slice.count && !out.empty(); ++i) {
    const VocabCandidate candidate{slice.logits[i], slice.first_id + static_cast<TokenId>(i)};
    if (kept == out.size() && !before(candidate, out[kept - 1])) {
      continue;
    }
    // Insertion into a short sorted list: almost every token stops at the comparison above.
    std::size_t slot = kept < out.size() ? kept++ : kept - 1;
    while (slot > 0 && before(candidate, out[slot - 1])) {
      out[slot] = out[slot - 1];
      --slot;
    }
    out[slot] = candidate;
  }
  return kept;
}

}  // namespace phalanx::kernels
