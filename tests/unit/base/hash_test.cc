// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/hash.h"

#include <bit>
#include <set>
#include <unordered_set>

#include <gtest/gtest.h>

#include "phalanx/base/ids.h"

namespace phalanx {
namespace {

TEST(Mix64, MovesAboutHalfOfTheBits) {
  int moved = 0;
  for (int bit = 0; bit < 64; ++bit) {
    moved += std::popcount(mix64(12345) ^ mix64(12345 ^ (std::uint64_t{1} << bit)));
  }
  EXPECT_NEAR(moved / 64.0, 32.0, 3.0);
}

TEST(Fingerprint, TellsOrderLengthAndContentApart) {
  const auto of = [](auto... words) {
    Fingerprint print;
    (print.add(static_cast<std::uint64_t>(words)), ...);
    return print.value();
  };
  const std::set<std::uint64_t> prints{of(), of(0), of(0, 0), of(1, 2), of(2, 1), of(1), of(2)};
  EXPECT_EQ(prints.size(), 7U);
  EXPECT_EQ(of(1, 2), of(1, 2));
}

TEST(Fingerprint, TellsTextsWithEqualJoinsApart) {
  EXPECT_NE(Fingerprint().add_text("ab").add_text("c").value(),
            Fingerprint().add_text("a").add_text("bc").value());
  EXPECT_NE(Fingerprint().add_text("a").value(),
            Fingerprint().add_text(std::string_view("a\0", 2)).value());
  EXPECT_EQ(Fingerprint().add_text("nine bytes").value(),
            Fingerprint().add_text("nine bytes").value());
}

TEST(Id, ComparesAndHashesByItsNumber) {
  const std::unordered_set<RankId> ranks{RankId(1), RankId(2), RankId(1)};
  EXPECT_EQ(ranks.size(), 2U);
  EXPECT_LT(RankId(1), RankId(2));
  EXPECT_EQ(RankId().value(), 0U);
  EXPECT_FALSE((std::is_convertible_v<RankId, ReplicaId>));
  EXPECT_FALSE((std::is_convertible_v<std::uint32_t, RankId>));
}

}  // namespace
}  // namespace phalanx
