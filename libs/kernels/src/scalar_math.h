// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "phalanx/kernels/layout.h"

// The elementary functions of docs/arithmetic.md as plain code. Each operator rounds once; the
// thread must be in the float mode. Vector code repeats these lines lane by lane.

namespace phalanx::kernels::scalar {

// a · b + c rounded once, for a and b that are bf16 values: their product has 16 significant bits
// and is exact in double, and neither the sum's nor the final rounding can meet a false tie.
[[nodiscard]] float fused(float a, float b, float c);

// a · b + c rounded once, for any a, b and c: what the fused instructions compute.
[[nodiscard]] float fma(float a, float b, float c);

[[nodiscard]] float exp(float x);
[[nodiscard]] float exp2(float x);               // of attention; requires x ≤ 0 or NaN
[[nodiscard]] float log(float x);                // requires a positive normal x
[[nodiscard]] float silu(float x);               // x / (1 + exp(−x))
[[nodiscard]] float gumbel(std::uint32_t word);  // −log of an exponential variate
[[nodiscard]] std::int32_t mass(float logit, float maximum);

// sums[c] += the dot product of a[0 … 31] with column c of one block of a packed strip. Elements of
// `a` from k on count as zeros.
void add_dot_block(const Bf16* a, std::size_t k, const Bf16* block, float (&sums)[16]);

// sums[c] = the dot product of a[0 … k−1] with column c of a packed strip.
void dot_strip(const Bf16* a, std::size_t k, const Bf16* strip, float (&sums)[16]);

// Sum of 16 virtual lanes.
[[nodiscard]] float sum_lanes(const float (&lanes)[16]);

// The functions in double that tables and scalars of a row use.
[[nodiscard]] double exp(double x);  // |x| ≤ 700
[[nodiscard]] double log(double x);  // requires a positive normal x
// Sine and cosine of 0 ≤ x < 2^25.
void sin_cos(double x, double* sine, double* cosine);

}  // namespace phalanx::kernels::scalar
