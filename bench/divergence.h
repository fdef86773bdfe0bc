// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace phalanx::bench {

// How far the distributions of one model are from those of another, over positions.
class Divergence {
 public:
  // One position: the logits of the whole vocabulary, of the model that counts as right and of the
  // other. Finite, equally many, at least one.
  void add(std::span<const float> reference, std::span<const float> other);

  [[nodiscard]] std::uint64_t positions() const { return positions_; }

  // The rest requires a position.
  // Mean of KL(reference ‖ other) in nats, its standard error, and the largest.
  [[nodiscard]] double mean_kl() const;
  [[nodiscard]] double kl_error() const;
  [[nodiscard]] double max_kl() const { return max_kl_; }
  // The share of positions with the same likeliest token: the first of equals.
  [[nodiscard]] double top_share() const;

 private:
  std::uint64_t positions_ = 0;
  std::uint64_t same_top_ = 0;
  double sum_ = 0.0;
  double squares_ = 0.0;
  double max_kl_ = 0.0;
};

}  // namespace phalanx::bench
