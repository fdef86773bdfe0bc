// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/bytes_text.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(BytesText, IsInTheLargestUnitThatFits) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(std::uint64_t{5} << 28), "1.25 GiB");
}

}  // namespace
}  // namespace phalanx
