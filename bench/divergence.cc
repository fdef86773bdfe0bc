// SPDX-License-Identifier: Apache-2.0
#include "divergence.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "phalanx/base/check.h"

namespace phalanx::bench {
namespace {

double log_sum_exp(std::span<const float> logits) {
  const auto most = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0.0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - most);
  }
  return most + std::log(sum);
}

std::ptrdiff_t top_of(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

}  // namespace

void Divergence::add(std::span<const float> reference, std::span<const float> other) {
  PHALANX_CHECK(!reference.empty() && reference.size() == other.size(),
                "expected the logits of one vocabulary");
  const double of_reference = log_sum_exp(reference);
  const double of_other = log_sum_exp(other);
  double kl = 0.0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double log_p = static_cast<double>(reference[i]) - of_reference;
    const double log_q = static_cast<double>(other[i]) - of_other;
    kl += std::exp(log_p) * (log_p - log_q);
  }
  kl = std::max(kl, 0.0);  // below only by rounding
  ++positions_;
  same_top_ += top_of(reference) == top_of(other) ? 1U : 0U;
  sum_ += kl;
  squares_ += kl * kl;
  max_kl_ = std::max(max_kl_, kl);
}

double Divergence::mean_kl() const {
  return sum_ / static_cast<double>(positions_);
}

double Divergence::kl_error() const {
  const auto count = static_cast<double>(positions_);
  return std::sqrt(std::max(squares_ / count - mean_kl() * mean_kl(), 0.0) / count);
}

double Divergence::top_share() const {
  return static_cast<double>(same_top_) / static_cast<double>(positions_);
}

}  // namespace phalanx::bench
