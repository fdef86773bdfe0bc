// SPDX-License-Identifier: Apache-2.0
// What the tests of matrix products, which run over the amx table too, do not see.
#include <array>

#include "phalanx/kernels/arithmetic_version.h"

#include "integer_inputs.h"
#include "matmul_tables.h"

namespace phalanx::kernels {
namespace {

TEST(Amx, InstructionsOfThisProcessorAreTested) {
  if (!is_available(Isa::kAmx)) {
    GTEST_SKIP() << "NO AMX ON THIS MACHINE: the products of amx are proved over arrays and, "
                    "instruction by instruction, by an emulator. That the processor's instructions "
                    "do what both take for granted is not tested here.";
  }
  EXPECT_EQ(arithmetic_version(kernel_table(Isa::kAmx)), kArithmeticVersion);
}

TEST(Amx, HasTheGoldenHashOverArrays) {
  if (!is_available(Isa::kAvx512Vnni)) {
    GTEST_SKIP() << "no avx512vnni on this machine, whose lanes the amx table has";
  }
  EXPECT_EQ(arithmetic_version(array_tiles_table()), kArithmeticVersion);
  EXPECT_EQ(arithmetic_version(all_array_tiles_table()), kArithmeticVersion);
}

TEST(Amx, HasTheGoldenHashWithoutItsInstructions) {
  if (!can_emulate_amx()) {
    GTEST_SKIP() << kCannotEmulateAmx;
  }
  const TileEmulator emulator;
  EXPECT_EQ(arithmetic_version(amx_table()), kArithmeticVersion);
  EXPECT_GT(TileEmulator::instructions(), 0U) << "the golden vectors leave the tiles out";
}

// One tile of a product with `rows` rows: the number of tile instructions that it took.
unsigned long instructions_of(WeightFormat format, std::uint32_t rows) {
  constexpr std::uint32_t kK = 64;
  const std::vector<Bf16> activations(std::size_t{rows} * kK);
  Quantized quantized(rows, kK, ScaleSpan::kLeaf);
  PackedBytes packed(weight_bytes(format, kK, 16));
  const MatmulLeaf leaf{{format, kK, 16, packed.data()}, 0, 0, true};
  std::vector<float> out(std::size_t{rows} * 16);
  MatmulArgs args;
  if (format == WeightFormat::kBf16) {
    args.activations = activations.data();
    args.activation_stride = kK;
  } else {
    args.quantized = quantized.view;
  }
  args.rows = rows;
  args.leaves = &leaf;
  args.leaf_count = 1;
  args.columns = 16;
  args.out = out.data();
  args.out_stride = 16;
  const unsigned long before = TileEmulator::instructions();
  amx_table().matmul(args, 0);
  return TileEmulator::instructions() - before;
}

TEST(Amx, GivesTilesBackAndLeavesFewRowsToTheLanes) {
  if (!can_emulate_amx()) {
    GTEST_SKIP() << kCannotEmulateAmx;
  }
  const FloatModeScope mode;
  const TileEmulator emulator;
  for (const WeightFormat format : kWeightFormats) {
    SCOPED_TRACE(std::string(weight_format_name(format)));
    const std::uint32_t few = format == WeightFormat::kBf16 ? 3 : 8;
    EXPECT_EQ(instructions_of(format, 1), 0U);
    EXPECT_EQ(instructions_of(format, few), 0U);
    EXPECT_GT(instructions_of(format, few + 1), 0U);
    EXPECT_FALSE(TileEmulator::tiles_are_configured());
  }
}

}  // namespace
}  // namespace phalanx::kernels
