// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/choices.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/step/isa.h"

namespace phalanx::step {
namespace {

TEST(Choices, EachOfTheKvCacheNamesAFormat) {
  for (const std::string& choice : kv_format_choices()) {
    const KvFormat format = kv_format_of(choice);
    EXPECT_EQ(format == KvFormat::kInt8, choice == "int8") << choice;
    EXPECT_EQ(kv_format_of(kv_format_name(format)), format);
  }
  EXPECT_EQ(kv_format_of("auto"), KvFormat::kBf16);
  EXPECT_EQ(kv_format_of("bfloat16"), KvFormat::kBf16);
}

TEST(Choices, OfQuantizationAndInstructionSetBeginWithAuto) {
  EXPECT_EQ(quantization_choices(),
            (std::vector<std::string>{"auto", "bf16", "int8", "int8-g32", "int4"}));
  const std::vector<std::string> isas = isa_choices();
  ASSERT_EQ(isas.size(), kIsas.size() + 1);
  EXPECT_EQ(isas.front(), "auto");
  EXPECT_EQ(isas.back(), isa_name(Isa::kAmx));
}

}  // namespace
}  // namespace phalanx::step
