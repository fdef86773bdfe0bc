// SPDX-License-Identifier: Apache-2.0
#pragma once

// Row operations.

#include "phalanx/kernels/rows.h"

#include "lanes/lanes.h"
#include "lanes/math_body.h"
#include "lanes/row_out.h"

namespace phalanx::kernels {
namespace {

PHALANX_LANES std::uint32_t end_of_row_tile(std::uint32_t tile, std::uint32_t rows) {
  const std::uint32_t end = (tile + 1) * kRowTile;
  return end < rows ? end : rows;
}

PHALANX_LANES std::uint16_t* bits_of(Bf16* p) {
  return reinterpret_cast<std::uint16_t*>(p);
}

PHALANX_LANES float inverse_rms(const float* x, std::size_t count, float epsilon) {
  F16 lanes = f_set(0.0F);
  for (std::size_t i = 0; i < count; i += 16) {
    const F16 v = f_load_first(x + i, count - i);
    lanes = lanes + v * v;
  }
  const float mean = f_sum(lanes) / static_cast<float>(count);
  return inverse_square_root(mean + epsilon);
}

PHALANX_LANES void add_row(float* x, const float* delta, const float* bias, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) {
    const std::size_t left = count - i;
    F16 sum = f_load_first(delta + i, left);
    if (bias != nullptr) {
      sum = sum + f_load_first(bias + i, left);
    }
    f_store_first(x + i, f_load_first(x + i, left) + sum, left);
  }
}

inline void rms_norm_tile(const RmsNormArgs& args, std::uint32_t tile) {
  const std::uint32_t end = end_of_row_tile(tile, args.rows);
  for (std::size_t row = std::size_t{tile} * kRowTile; row < end; ++row) {
    float* x = args.x + row * args.x_stride;
    if (args.delta != nullptr) {
      add_row(x, args.delta + row * args.delta_stride, args.delta_bias, args.hidden);
    }
    if (args.out == nullptr && args.out_wide == nullptr) {
      continue;
    }
    const F16 scale = f_set(inverse_rms(x, args.hidden, args.epsilon));
    const RowOut out(args.out, args.out_wide, row * args.out_stride);
    for (std::size_t i = 0; i < args.hidden; i += 16) {
      const std::size_t left = args.hidden - i;
      const F16 normed = f_load_first(x + i, left) * scale * f_load_first(args.gain + i, left);
      out.store(i, normed, left);
    }
  }
}

// Requires head_dim a multiple of 16, so half of it is one of 8.
PHALANX_LANES void one_head(const HeadNormRopeArgs& args, std::size_t row, std::size_t head) {
  const float* x = args.x + row * args.x_stride + head * args.head_dim;
  std::uint16_t* out = bits_of(args.out + row * args.out_stride + head * args.head_dim);
  const float* cos = args.cos + row * args.rope_stride;
  const float* sin = args.sin + row * args.rope_stride;
  alignas(64) float normed[kMaxHeadDim];
  if (args.gain != nullptr) {
    const F16 scale = f_set(inverse_rms(x, args.head_dim, args.epsilon));
    for (std::size_t i = 0; i < args.head_dim; i += 16) {
      f_store(normed + i, f_load(x + i) * scale * f_load(args.gain + i));
    }
    x = normed;
  }
  const std::size_t half = args.head_dim / 2;
  for (std::size_t i = 0; i < half; i += 16) {
    const std::size_t left = half - i;
    const F16 low = f_load_first(x + i, left);
    const F16 high = f_load_first(x + half + i, left);
    const F16 c = f_load_first(cos + i, left);
    const F16 s = f_load_first(sin + i, left);
    b_store(out + i, b_nearest(low * c - high * s), left);
    b_store(out + half + i, b_nearest(high * c + low * s), left);
  }
}

inline void head_norm_rope_tile(const HeadNormRopeArgs& args, std::uint32_t tile) {
  const std::uint32_t end = end_of_row_tile(tile, args.rows);
  for (std::size_t row = std::size_t{tile} * kRowTile; row < end; ++row) {
    for (std::size_t head = 0; head < args.heads; ++head) {
      one_head(args, row, head);
    }
  }
}

inline void swiglu_tile(const SwigluArgs& args, std::uint32_t tile) {
  const std::uint32_t end = end_of_row_tile(tile, args.rows);
  for (std::size_t row = std::size_t{tile} * kRowTile; row < end; ++row) {
    const float* gate = args.gate + row * args.gate_stride;
    const float* up = args.up + row * args.up_stride;
    const RowOut out(args.out, args.out_wide, row * args.out_stride);
    for (std::size_t i = 0; i < args.columns; i += 16) {
      const std::size_t left = args.columns - i;
      const F16 g = f_load_first(gate + i, left);
      const F16 negated = f_bits(i_bits(g) ^ i_set(0x80000000));
      const F16 silu = g / (f_set(1.0F) + f_exp(negated));
      out.store(i, silu * f_load_first(up + i, left), left);
    }
  }
}

}  // namespace
}  // namespace phalanx::kernels
