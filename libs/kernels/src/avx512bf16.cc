// SPDX-License-Identifier: Apache-2.0
#include "lanes/attention_body.h"
#include "lanes/matmul_body.h"
#include "lanes/rows_body.h"
#include "tables.h"

namespace phalanx::kernels {

namespace {

// So many rows wait for memory either way, and get a tenth more of it beside the longer loop of
// floats, where cores are of two groups (Zen 4). Three go by pages, five compute for longer.
constexpr std::uint32_t kRowsOfFloats = 4;

template <const KernelTable& (*kWithout)(), DataPath kPath>
void multiply_by_pairs(const MatmulArgs& args, std::uint32_t tile) {
  const bool waits = kPath == DataPath::kInHalves && args.rows == kRowsOfFloats;
  if (args.leaves[0].weight.format == WeightFormat::kBf16 && !waits) {
    run_panels<Bf16Product<kRowsAtOnce<kPath>, ChainPair>>(args, tile, kPath);
  } else {
    kWithout().matmul(args, tile);
  }
}

template <const KernelTable& (*kWithout)(), DataPath kPath>
void attend_by_pairs(const AttentionArgs& args, std::uint32_t tile) {
  if (args.kv.format == KvFormat::kBf16) {
    attend_tile_of<Bf16Cache<ChainPair>, kPath>(args, tile);
  } else {
    kWithout().attention(args, tile);
  }
}

// Only what multiplies numbers of bf16, or rounds to them, is compiled again. kWithout is the table
// of the same data path without its instructions.
template <const KernelTable& (*kWithout)(), DataPath kPath>
KernelTable pairs_table() {
  KernelTable table = kWithout();
  table.isa = Isa::kAvx512Bf16;
  table.matmul = multiply_by_pairs<kWithout, kPath>;
  table.rms_norm = rms_norm_tile;
  table.head_norm_rope = head_norm_rope_tile;
  table.swiglu = swiglu_tile;
  table.attention = attend_by_pairs<kWithout, kPath>;
  return table;
}

}  // namespace

const KernelTable& avx512bf16_table() {
  static const KernelTable kTable = pairs_table<avx512vnni_table, DataPath::kWhole>();
  return kTable;
}

const KernelTable& avx512bf16_in_halves_table() {
  static const KernelTable kTable = pairs_table<avx512vnni_in_halves_table, DataPath::kInHalves>();
  return kTable;
}

}  // namespace phalanx::kernels
