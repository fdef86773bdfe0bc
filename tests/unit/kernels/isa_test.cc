// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/isa.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/kernels/arithmetic_version.h"
#include "phalanx/kernels/float_mode.h"
#include "phalanx/kernels/kernel_table.h"

#include "chain_pairs.h"
#include "matmul_tables.h"

namespace phalanx::kernels {
namespace {

TEST(Isa, AutoIsTheFastest) {
  const auto isa = resolve_isa("auto");
  ASSERT_TRUE(isa.has_value());
  std::vector<Isa> expected = available_isas();
  if (expected.back() == Isa::kAvx512Bf16 && !pairs_are_fast()) {
    expected.pop_back();
  }
  EXPECT_EQ(*isa, expected.back());
}

TEST(Isa, ResolvesEveryAvailableName) {
  for (const Isa isa : available_isas()) {
    const auto resolved = resolve_isa(isa_name(isa));
    ASSERT_TRUE(resolved.has_value());
    EXPECT_EQ(*resolved, isa);
    EXPECT_EQ(kernel_table(isa).isa, isa);
  }
}

TEST(Isa, OfTheTwoKindsOfProcessorOneIsThis) {
  if (!is_available(Isa::kAvx512Vnni)) {
    GTEST_SKIP() << "no avx512vnni on this machine";
  }
  EXPECT_NE(&kernel_table(Isa::kAvx512Vnni), &other_avx512vnni_table());
  if (is_available(Isa::kAvx512Bf16)) {
    EXPECT_NE(&kernel_table(Isa::kAvx512Bf16), &other_avx512bf16_table());
  }
}

TEST(Isa, RefusesAnUnknownNameAndListsTheNames) {
  const auto isa = resolve_isa("avx1024");
  ASSERT_FALSE(isa.has_value());
  EXPECT_EQ(isa.error().code(), Code::kInvalidArgument);
  EXPECT_NE(isa.error().message().find("avx1024"), std::string::npos);
  for (const IsaRow& row : kIsas) {
    EXPECT_NE(isa.error().message().find(row.name), std::string::npos) << row.name;
  }
}

TEST(Isa, RefusesAKnownNameThatIsAbsent) {
  const std::vector<Isa> available = available_isas();
  for (const IsaRow& row : kIsas) {
    const auto resolved = resolve_isa(row.name);
    EXPECT_EQ(resolved.has_value(), std::ranges::count(available, row.isa) == 1) << row.name;
    if (!resolved.has_value()) {
      EXPECT_EQ(resolved.error().code(), Code::kInvalidArgument) << "it will not come by waiting";
      EXPECT_NE(resolved.error().message().find(row.needs), std::string::npos);
      EXPECT_NE(resolved.error().message().find("available: ref"), std::string::npos);
    }
  }
}

TEST(ArithmeticVersion, IsTheGoldenHashOfEveryTable) {
  EXPECT_EQ(arithmetic_version(kernel_table(Isa::kRef)), kArithmeticVersion);
  for (const MatmulTable& of : vector_tables()) {
    EXPECT_EQ(arithmetic_version(*of.table), kArithmeticVersion) << of.name;
  }
}

TEST(ArithmeticVersion, DoesNotDependOnTheFloatModeOfTheCaller) {
  const FloatModeScope mode;
  EXPECT_EQ(arithmetic_version(kernel_table(Isa::kRef)), kArithmeticVersion);
}

}  // namespace
}  // namespace phalanx::kernels
