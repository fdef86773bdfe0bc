// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/split_list.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(SplitList, OnlyCommasSeparateNames) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(split_list("a, b ,,  c d ,"), (Names{"a", "b", "c d"}));
  EXPECT_EQ(split_list(" a"), Names{"a"});
  EXPECT_EQ(split_list("a b"), Names{"a b"}) << "its reader refuses it; \"ab\" was never meant";
  EXPECT_EQ(split_list(" , "), Names{});
  EXPECT_EQ(split_list(""), Names{});
}

}  // namespace
}  // namespace phalanx
