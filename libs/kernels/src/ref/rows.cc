// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ref/entries.h"
#include "ref/row_out.h"
#include "scalar_math.h"

namespace phalanx::kernels::ref {

namespace {

// 1/√(mean square + epsilon). Lane j of 16 adds the squares of elements j, j + 16, …
float inverse_rms(const float* x, std::size_t count, float epsilon) {
  float lanes[16] = {};
  for (std::size_t i = 0; i < count; ++i) {
    lanes[i % 16] = lanes[i % 16] + x[i] * x[i];
  }
  const float mean = scalar::sum_lanes(lanes) / static_cast<float>(count);
  return 1.0F / std::sqrt(mean + epsilon);
}

void one_head(const HeadNormRopeArgs& args, std::uint32_t row, std::uint32_t head) {
  const float* x = args.x + row * args.x_stride + std::size_t{head} * args.head_dim;
  Bf16* out = args.out + row * args.out_stride + std::size_t{head} * args.head_dim;
  const float* cos = args.cos + row * args.rope_stride;
  const float* sin = args.sin + row * args.rope_stride;
  std::array<float, kMaxHeadDim> normed{};
  std::copy_n(x, args.head_dim, normed.begin());
  if (args.gain != nullptr) {
    const float scale = inverse_rms(x, args.head_dim, args.epsilon);
    for (std::size_t i = 0; i < args.head_dim; ++i) {
      normed[i] = x[i] * scale * args.gain[i];
    }
  }
  const std::size_t half = args.head_dim / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const float low = normed[i];
    const float high = normed[i + half];
    out[i] = tensor::to_bf16(low * cos[i] - high * sin[i]);
    out[i + half] = tensor::to_bf16(high * cos[i] + low * sin[i]);
  }
}

}  // namespace

void rms_norm(const RmsNormArgs& args, std::uint32_t tile) {
  const std::uint32_t end = std::min((tile + 1) * kRowTile, args.rows);
  for (std::uint32_t row = tile * kRowTile; row < end; ++row) {
    float* x = args.x + row * args.x_stride;
    if (args.delta != nullptr) {
      const float* delta = args.delta + row * args.delta_stride;
      for (std::size_t i = 0; i < args.hidden; ++i) {
        x[i] = x[i] + (args.delta_bias == nullptr ? delta[i] : delta[i] + args.delta_bias[i]);
      }
    }
    if (args.out == nullptr && args.out_wide == nullptr) {
      continue;
    }
    const float scale = inverse_rms(x, args.hidden, args.epsilon);
    const RowOut out = {args.out, args.out_wide, row * args.out_stride};
    for (std::size_t i = 0; i < args.hidden; ++i) {
      out.store(i, x[i] * scale * args.gain[i]);
    }
  }
}

void head_norm_rope(const HeadNormRopeArgs& args, std::uint32_t tile) {
  const std::uint32_t end = std::min((tile + 1) * kRowTile, args.rows);
  for (std::uint32_t row = tile * kRowTile; row < end; ++row) {
    for (std::uint32_t head = 0; head < args.heads; ++head) {
      one_head(args, row, head);
    }
  }
}

void swiglu(const SwigluArgs& args, std::uint32_t tile) {
  const std::uint32_t end = std::min((tile + 1) * kRowTile, args.rows);
  for (std::uint32_t row = tile * kRowTile; row < end; ++row) {
    const float* gate = args.gate + row * args.gate_stride;
    const float* up = args.up + row * args.up_stride;
    const RowOut out = {args.out, args.out_wide, row * args.out_stride};
    for (std::size_t i = 0; i < args.columns; ++i) {
      out.store(i, scalar::silu(gate[i]) * up[i]);
    }
  }
}

}  // namespace phalanx::kernels::ref
