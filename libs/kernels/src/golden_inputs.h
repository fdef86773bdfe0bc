// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/base/hash.h"
#include "phalanx/kernels/kernel_table.h"

// What the golden vectors of the arithmetic are made from and how they become a hash.

namespace phalanx::kernels {

// Inputs by integer arithmetic alone: numbers in (−4, 4) with exponents from 2^-20 up.
class GoldenInputs {
 public:
  float next() {
    if (counter_ % 2 == 0) {
      bits_ = mix64(counter_ / 2 + 1);
    }
    ++counter_;
    const auto half = static_cast<std::uint32_t>(bits_);
    bits_ >>= 32;
    const float mantissa = static_cast<float>(half & 0xFFFFFF) * 0x1p-23F - 1.0F;
    const std::uint32_t shift = (half >> 24) % 20;
    // 4 ÷ 2^shift by its exponent.
    return mantissa * std::bit_cast<float>((129 - (shift < 12 ? 0 : shift)) << 23);
  }
  std::vector<float> floats(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) {
      value = next();
    }
    return values;
  }
  std::vector<Bf16> bf16s(std::size_t count) {
    std::vector<Bf16> values(count);
    for (Bf16& value : values) {
      value = tensor::to_bf16(next());
    }
    return values;
  }

 private:
  std::uint64_t counter_ = 0;
  std::uint64_t bits_ = 0;
};

template <typename T>
void add(Fingerprint* hash, const std::vector<T>& values) {
  hash->add_bytes(std::as_bytes(std::span(values)));
}

// Query, key and rotary tables, the KV cache in each of its formats, and attention.
void add_golden_attention(const KernelTable& table, GoldenInputs* inputs, Fingerprint* hash);
// Every row of an embedding, from the last on.
void add_embedding(const WeightView& table, Fingerprint* hash);
// Activations as integers, weights in every format of integers, their products and embeddings.
void add_golden_integers(const KernelTable& table, GoldenInputs* inputs, Fingerprint* hash);

}  // namespace phalanx::kernels
