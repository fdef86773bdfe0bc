// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/message.h"

#include <gtest/gtest.h>

namespace phalanx::http {
namespace {

TEST(Headers, FindsNamesWithoutRegardToCase) {
  const Headers headers = {{"Content-Type", "a"}, {"content-type", "b"}};
  ASSERT_NE(headers.find("CONTENT-TYPE"), nullptr);
  EXPECT_EQ(*headers.find("CONTENT-TYPE"), "a");
  EXPECT_EQ(headers.find("content"), nullptr);
}

TEST(Headers, SetReplacesEveryFieldOfThatName) {
  Headers headers = {{"Allow", "a"}, {"x", "1"}, {"allow", "b"}};
  headers.set("ALLOW", "c");
  ASSERT_EQ(headers.fields().size(), 2U);
  EXPECT_EQ(*headers.find("allow"), "c");
  EXPECT_EQ(*headers.find("x"), "1");
}

TEST(ReasonPhrase, NamesKnownStatusesAndSaysSoOtherwise) {
  EXPECT_EQ(reason_phrase(404), "Not Found");
  EXPECT_EQ(reason_phrase(431), "Request Header Fields Too Large");
  EXPECT_EQ(reason_phrase(799), "Unknown");
}

}  // namespace
}  // namespace phalanx::http
