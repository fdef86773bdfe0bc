// SPDX-License-Identifier: Apache-2.0
#include "avx512/entries.h"
#include "lanes/rows_body.h"

namespace phalanx::kernels::avx512 {

void rms_norm(const RmsNormArgs& args, std::uint32_t tile) {
  rms_norm_tile(args, tile);
}

void head_norm_rope(const HeadNormRopeArgs& args, std::uint32_t tile) {
  head_norm_rope_tile(args, tile);
}

void swiglu(const SwigluArgs& args, std::uint32_t tile) {
  swiglu_tile(args, tile);
}

}  // namespace phalanx::kernels::avx512
