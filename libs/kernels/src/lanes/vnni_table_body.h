// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernel table over the lanes of a translation unit that is compiled with VNNI: only what
// multiplies integer codes is compiled again for it.

#include "phalanx/kernels/kernel_table.h"

#include "lanes/attention_body.h"
#include "lanes/int_matmul_body.h"

namespace phalanx::kernels {
namespace {

template <const KernelTable& (*kWithout)(), DataPath kPath>
void vnni_matmul_tile(const MatmulArgs& args, std::uint32_t tile) {
  if (args.leaves[0].weight.format == WeightFormat::kBf16) {
    kWithout().matmul(args, tile);
  } else {
    int_matmul_tile(args, tile, kPath);
  }
}

template <const KernelTable& (*kWithout)(), DataPath kPath>
void vnni_attend_tile(const AttentionArgs& args, std::uint32_t tile) {
  if (args.kv.format == KvFormat::kInt8) {
    attend_tile_of<Int8Cache, kPath>(args, tile);
  } else {
    kWithout().attention(args, tile);
  }
}

// kWithout is the table of the same lanes and data path without VNNI.
template <const KernelTable& (*kWithout)(), DataPath kPath = DataPath::kWhole>
KernelTable vnni_table(Isa isa) {
  KernelTable table = kWithout();
  table.isa = isa;
  table.matmul = vnni_matmul_tile<kWithout, kPath>;
  table.attention = vnni_attend_tile<kWithout, kPath>;
  return table;
}

}  // namespace
}  // namespace phalanx::kernels
