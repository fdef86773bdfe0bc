// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "phalanx/kernels/rows.h"

#include "ref/code.h"
#include "ref/entries.h"

namespace phalanx::kernels::ref {

namespace {

struct Scale {
  float scale = 0.0F;    // a code of 1
  float inverse = 0.0F;  // 0: every code is 0
};

Scale scale_of(const float* x, std::size_t count) {
  float largest = 0.0F;
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) {
      return {std::numeric_limits<float>::quiet_NaN(), 0.0F};
    }
    largest = std::max(largest, std::abs(x[i]));
  }
  return largest < kSmallestCoded ? Scale{} : Scale{largest / 127.0F, 127.0F / largest};
}

void one_leaf(const QuantizeArgs& args, const QuantizeLeaf& leaf, std::size_t row, std::size_t at) {
  const float* x = args.x + row * args.x_stride + leaf.first_k;
  const std::size_t first = row * args.out.code_stride + at;
  const bool by_leaf = args.out.span == ScaleSpan::kLeaf;
  const Scale of_leaf = scale_of(x, leaf.k);
  std::int32_t sum = 0;
  for (std::size_t k = 0; k < leaf.k; k += kDotBlock) {
    const std::size_t count = std::min(kDotBlock, leaf.k - k);
    const Scale scale = by_leaf ? of_leaf : scale_of(x + k, count);
    std::int8_t* codes = args.out.codes + first + k;
    sum = by_leaf ? sum : 0;
    for (std::size_t i = 0; i < kDotBlock; ++i) {
      codes[i] =
          i < count && scale.inverse != 0.0F ? code_of(x[k + i], scale.inverse) : std::int8_t{0};
      sum += codes[i];
    }
    args.out.sums[(first + k) / kDotBlock] = sum;
    args.out.scales[(first + k) / kDotBlock] = scale.scale;
  }
}

}  // namespace

void quantize(const QuantizeArgs& args, std::uint32_t tile) {
  const std::uint32_t end = std::min((tile + 1) * kRowTile, args.rows);
  for (std::size_t row = std::size_t{tile} * kRowTile; row < end; ++row) {
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < args.leaf_count; ++i) {
      one_leaf(args, args.leaves[i], row, at);
      at += padded_k(args.leaves[i].k);
    }
  }
}

}  // namespace phalanx::kernels::ref
