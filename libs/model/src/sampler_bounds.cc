// SPDX-License-Identifier: Apache-2.0
#include "sampler_bounds.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "phalanx/step/limits.h"

namespace phalanx::model {
namespace {

using kernels::VocabCandidate;
using kernels::VocabPeak;
using kernels::VocabSlice;

constexpr float kNothing = -std::numeric_limits<float>::infinity();

// The largest logits of pieces of a slice: any k of them are k tokens.
class Pieces {
 public:
  Pieces(const kernels::KernelTable& kernels, const VocabSlice& slice) : slice_(slice) {
    const std::size_t even = (slice.count + kMost - 1) / kMost;
    tokens_ = static_cast<std::uint32_t>((even + kVector - 1) / kVector * kVector);
    for (std::uint32_t first = 0; first < slice.count; first += tokens_) {
      VocabPeak peak;
      kernels.vocab_max(piece(count_), &peak);
      largest_[count_++] = peak.value;
    }
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] float largest(std::size_t index) const { return largest_[index]; }
  [[nodiscard]] VocabSlice piece(std::size_t index) const {
    const auto first = static_cast<std::uint32_t>(index) * tokens_;
    return {slice_.logits + first,
            std::min(tokens_, slice_.count - first),
            slice_.first_id + static_cast<TokenId>(first)};
  }

  [[nodiscard]] float floor_of_kth(std::uint32_t k) const {
    if (k > count_) {
      return kNothing;
    }
    std::array<float, kMost> sorted = largest_;
    const auto kth = sorted.begin() + (k - 1);
    std::nth_element(
        sorted.begin(), kth, sorted.begin() + static_cast<std::ptrdiff_t>(count_), std::greater());
    return *kth;
  }

 private:
  static constexpr std::size_t kMost = 1024;
  static constexpr std::size_t kVector = 16;
  VocabSlice slice_;
  std::uint32_t tokens_ = 0;  // of a piece
  std::size_t count_ = 0;
  std::array<float, kMost> largest_{};
};

}  // namespace

float floor_of_kth(const kernels::KernelTable& kernels, const VocabSlice& slice, std::uint32_t k) {
  return Pieces(kernels, slice).floor_of_kth(k);
}

kernels::VocabKeep raised(const kernels::VocabKeep& keep, float floor) {
  const std::uint32_t key = kernels::logit_key(floor);
  return key > keep.floor_key ? kernels::VocabKeep{key, std::numeric_limits<TokenId>::max()} : keep;
}

std::size_t top_of(const kernels::KernelTable& kernels,
                   const VocabSlice& slice,
                   std::span<VocabCandidate> out) {
  const Pieces pieces(kernels, slice);
  const auto most = static_cast<std::uint32_t>(out.size());
  const std::uint32_t floor = kernels::logit_key(pieces.floor_of_kth(most));
  std::array<VocabCandidate, step::kMaxTopLogprobs> some;
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < pieces.count(); ++i) {
    if (kernels::logit_key(pieces.largest(i)) >= floor) {
      const std::size_t found = kernels::vocab_top(pieces.piece(i), std::span(some).first(most));
      count = merge_top(out, count, std::span(some).first(found), most);
    }
  }
  return count;
}

std::uint32_t merge_top(std::span<VocabCandidate> top,
                        std::uint32_t count,
                        std::span<const VocabCandidate> from,
                        std::uint32_t most) {
  for (const VocabCandidate& candidate : from) {
    std::uint32_t place = count;
    while (place > 0 && kernels::before(candidate, top[place - 1])) {
      --place;
    }
    if (place >= most) {
      continue;
    }
    count = std::min(count + 1, most);
    for (std::uint32_t i = count - 1; i > place; --i) {
      top[i] = top[i - 1];
    }
    top[place] = candidate;
  }
  return count;
}

}  // namespace phalanx::model
