// SPDX-License-Identifier: Apache-2.0
#include "avx512/entries.h"
#include "lanes/matmul_body.h"

namespace phalanx::kernels::avx512 {

void matmul(const MatmulArgs& args, std::uint32_t tile) {
  matmul_tile(args, tile);
}

}  // namespace phalanx::kernels::avx512
