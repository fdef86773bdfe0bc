// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/base/ids.h"

// Choosing a token from logits that may lie in several shards of the vocabulary. Every sum over the
// vocabulary is an integer, so the parts of a row may be formed in any order and added.
// Definitions: docs/arithmetic.md, "Vocabulary sums" and "Sampling".

namespace phalanx::kernels {

// A contiguous piece of one row of logits.
struct VocabSlice {
  const float* logits = nullptr;  // 64-byte aligned is faster, any alignment works
  std::uint32_t count = 0;
  TokenId first_id = 0;  // id of logits[0]
};

// The largest logit of a slice, ties to the lower id; NaNs are passed over.
struct VocabPeak {
  float value = 0.0F;  // −inf for a slice that is empty or all −inf
  TokenId id = -1;     // −1 for an empty slice; the first id for one that is all −inf
  // False when a NaN or +inf was met: the step must fail. −inf is a banned token and allowed.
  bool finite = true;

  // The peak of two slices together.
  [[nodiscard]] static VocabPeak merge(const VocabPeak& a, const VocabPeak& b);
};

// Order-preserving key of a logit: a < b as numbers ⇔ key(a) < key(b); −0 and +0 have one key.
[[nodiscard]] std::uint32_t logit_key(float logit);
[[nodiscard]] float logit_of_key(std::uint32_t key);

// Which tokens of logits without NaNs are kept: those with key > floor_key, and of those with key
// == floor_key the ones with id ≤ last_tied_id. The default keeps all.
struct VocabKeep {
  std::uint32_t floor_key = 0;
  TokenId last_tied_id = 0x7FFFFFFF;
};
[[nodiscard]] inline bool is_kept(std::uint32_t key, TokenId id, const VocabKeep& keep) {
  return key > keep.floor_key || (key == keep.floor_key && id <= keep.last_tied_id);
}

// A histogram of logit keys, for selection without a sort: among the tokens whose key agrees with
// `prefix` above bit `shift + 8`, bucket b counts those with byte b at `shift`.
struct VocabHistogram {
  std::uint64_t count[256] = {};
  std::int64_t mass[256] = {};
};
struct VocabHistogramArgs {
  VocabSlice slice;
  VocabKeep keep;            // tokens that are not kept are not counted
  float maximum = 0.0F;      // over the whole row; the reference of the masses
  std::uint32_t prefix = 0;  // key bits above shift + 8; the others are ignored
  int shift = 24;            // 24, 16, 8 or 0; at 24 there is no prefix
};

// Tokens by themselves, the lower ids first, in memory of the caller.
struct VocabList {
  float* logits = nullptr;
  TokenId* ids = nullptr;
  std::uint32_t capacity = 0;
  std::uint32_t count = 0;
};
struct VocabListArgs {
  VocabSlice slice;
  VocabKeep keep;               // tokens that are not kept are passed over
  std::uint32_t floor_key = 0;  // a kept token is listed unless its key is below
  float maximum = 0.0F;         // over the whole row; the reference of the masses
};

// Last word of the Philox counter of sampling noise, so that another use of the seed can have
// others.
inline constexpr std::uint32_t kGumbelDomain = 0x47554D42;

// Names the random numbers of one position.
struct GumbelKey {
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;
  std::uint32_t position = 0;
};

// Mass at which a prefix of (logit, id) order holds a share p of `total`: max(1, ⌈p · total⌉), the
// product formed in double. Requires 0 < p ≤ 1.
[[nodiscard]] std::int64_t mass_target(float p, std::int64_t total);

// log-softmax of one logit: (logit − maximum) − log(mass / 2^30), in double, rounded to fp32.
[[nodiscard]] float log_softmax(float logit, float maximum, std::int64_t mass);

// The smallest logit that min_p keeps: fp32(maximum + log(min_p)). Requires 0 < min_p ≤ 1.
[[nodiscard]] float min_p_floor(float maximum, float min_p);

// Bounds under which a token cannot matter where `maximum` is the largest logit of its row, which
// is kept: a token below mass_floor has mass 0, since exp(−22) · 2^30 < 0.3, and one below
// noise_floor loses against the largest, whatever noise both draw.
[[nodiscard]] float mass_floor(float maximum);
[[nodiscard]] float noise_floor(float maximum);
// A top_p over at most `tokens` tokens of a row keeps none below this. 0 ≤ p < 1.
[[nodiscard]] float top_p_floor(float maximum, float p, std::uint32_t tokens);
inline constexpr float kLeastNoise = -2.82F;
inline constexpr float kMostNoise = 22.88F;

struct TokenPenalty {
  float repetition = 1.0F;  // > 0; applied when the token was in the prompt or produced
  float presence = 0.0F;
  float frequency = 0.0F;
};
// The logit after penalties and bias, in this order: repetition, presence, frequency, bias.
//   seen      the token is in the prompt or was produced
//   produced  how often it was produced
[[nodiscard]] float penalised_logit(
    float logit, const TokenPenalty& penalty, bool seen, std::uint32_t produced, float bias);

struct VocabCandidate {
  float logit = 0.0F;
  TokenId id = -1;
};
// The first out.size() tokens of the slice in (logit descending, id ascending) order; returns how
// many there were. NaNs come last.
[[nodiscard]] std::size_t vocab_top(const VocabSlice& slice, std::span<VocabCandidate> out);
// Whether a comes before b in that order.
[[nodiscard]] bool before(const VocabCandidate& a, const VocabCandidate& b);

}  // namespace phalanx::kernels
