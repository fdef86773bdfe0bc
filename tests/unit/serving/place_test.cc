// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "phalanx/serving/request_desk.h"

#include "fake_desk.h"

namespace phalanx::serving {
namespace {

constexpr wire::RequestKey kKey{3, 2};
constexpr wire::RequestKey kOther{4, 1};

TEST(Place, IsGivenBackOnceWithItsOutcome) {
  FakeDesk desk;
  {
    Place place(desk, kKey);
    EXPECT_EQ(place.key(), kKey);
    EXPECT_TRUE(desk.endings.empty());
    place.end("error", "it broke");
    place.end("stop", "");
    place.refuse(400);
  }
  EXPECT_EQ(desk.endings, (std::vector<wire::End>{{kKey, "error", "it broke", 200}}));
}

TEST(Place, IsRefusedWithTheStatusOfTheAnswer) {
  FakeDesk desk;
  {
    Place place(desk, kKey);
    place.refuse(413);
  }
  EXPECT_EQ(desk.endings, (std::vector<wire::End>{{kKey, "refused", "", 413}}));
}

TEST(Place, IsRefusedByADefectWhenItIsForgotten) {
  FakeDesk desk;
  { const Place place(desk, kKey); }
  EXPECT_EQ(desk.endings, (std::vector<wire::End>{{kKey, "refused", "", 500}}));
}

TEST(Place, SaysNotMoreOfAnErrorThanAFrameHolds) {
  FakeDesk desk;
  Place(desk, kKey).end("error", std::string(std::size_t{1} << 20, 'x'));
  ASSERT_EQ(desk.endings.size(), 1U);
  EXPECT_EQ(desk.endings[0].error, std::string(wire::kMaxErrorBytes, 'x'));
}

TEST(Place, IsNobodysOnceItHasMoved) {
  FakeDesk desk;
  {
    Place place(desk, kKey);
    {
      Place taken(std::move(place));
      place.end("stop", "");  // NOLINT(bugprone-use-after-move): it does nothing
      EXPECT_TRUE(desk.endings.empty());
      EXPECT_EQ(taken.key(), kKey);
    }
    EXPECT_EQ(desk.endings.size(), 1U);
  }
  EXPECT_EQ(desk.endings, (std::vector<wire::End>{{kKey, "refused", "", 500}}));
}

TEST(Place, OneThatIsReplacedIsGivenBack) {
  FakeDesk desk;
  {
    Place place(desk, kKey);
    place = Place(desk, kOther);
    EXPECT_EQ(desk.endings, (std::vector<wire::End>{{kKey, "refused", "", 500}}));
    EXPECT_EQ(place.key(), kOther);
    place.end("length", "");
  }
  ASSERT_EQ(desk.endings.size(), 2U);
  EXPECT_EQ(desk.endings[1], (wire::End{kOther, "length", "", 200}));
}

TEST(Place, AnEmptyOneDoesNothing) {
  Place place;
  place.end("stop", "");
  place.refuse(400);
}

}  // namespace
}  // namespace phalanx::serving
