// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernel table over the lanes of a translation unit that is compiled with VNNI: only what
// multiplies integer codes is compiled again for it.

#include "phalanx/kernels/kernel_table.h"

#include "lanes/attention_body.h"
#include "lanes/int_matmul_body.h"

namespace phalanx::kernels {
namespace {

template <const KernelTable& (*kWithout)()>
void vnni_matmul_tile(const MatmulArgs& args, std::uint32_t tile) {
  if (args.leaves[0].weight.format == WeightFormat::kBf16) {
    kWithout().matmul(args, tile);
  } else {
    int_matmul_tile(args, tile);
  }
}

template <const KernelTable& (*kWithout)(), std::size_t kRowsAtOnce>
void vnni_attend_tile(const AttentionArgs& args, std::uint32_t tile) {
  if (args.kv.format == KvFormat::kInt8) {
    attend_tile_of<Int8Cache, kRowsAtOnce>(args, tile);
  } else {
    kWithout().attention(args, tile);
  }
}

// kWithout is the table of the same lanes without VNNI. Products of codes and floats, those of
// attention, are of up to kRowsAtOnce rows at once.
template <const KernelTable& (*kWithout)(), std::size_t kRowsAtOnce = kMaxBlockRows>
KernelTable vnni_table(Isa isa) {
  KernelTable table = kWithout();
  table.isa = isa;
  table.matmul = vnni_matmul_tile<kWithout>;
  table.attention = vnni_attend_tile<kWithout, kRowsAtOnce>;
  return table;
}

}  // namespace
}  // namespace phalanx::kernels
