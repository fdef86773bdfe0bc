// SPDX-License-Identifier: Apache-2.0
#include "avx2/entries.h"
#include "lanes/attention_body.h"

namespace phalanx::kernels::avx2 {

void attention(const AttentionArgs& args, std::uint32_t tile) {
  attend_tile(args, tile);
}

}  // namespace phalanx::kernels::avx2
