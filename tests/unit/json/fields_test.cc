// SPDX-License-Identifier: Apache-2.0
#include "phalanx/json/fields.h"

#include <gtest/gtest.h>

namespace phalanx::json {
namespace {

class JsonFields : public testing::Test {
 protected:
  Value root_ = *parse(R"({"n": 7, "big": 4294967296, "real": 0.5, "on": true, "text": "x",
                           "none": null, "inner": {"n": -1}, "ids": [3, 1, 3], "id": 2})");
  Fields fields_{root_, ""};
};

template <typename T>
std::string message_of(const Result<T>& result) {
  return result ? "" : result.error().message();
}

TEST_F(JsonFields, ReadsEachKind) {
  EXPECT_EQ(fields_.positive("n", 7).value(), 7U);
  EXPECT_EQ(fields_.number("real", 0, 1).value(), 0.5);
  EXPECT_EQ(fields_.number("n", 0, 10).value(), 7.0);
  EXPECT_TRUE(fields_.boolean("on").value());
  EXPECT_EQ(fields_.text("text").value(), "x");
  EXPECT_EQ(fields_.ids("ids", 4).value(), (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(fields_.ids("id", 4).value(), (std::vector<std::int32_t>{2}));
}

TEST_F(JsonFields, NullIsNotThere) {
  EXPECT_TRUE(fields_.has("n"));
  EXPECT_FALSE(fields_.has("none"));
  EXPECT_TRUE(fields_.is_null("none"));
  EXPECT_FALSE(fields_.has("absent"));
  EXPECT_FALSE(fields_.is_null("absent"));
}

TEST_F(JsonFields, MessagesNamePathExpectedAndFound) {
  EXPECT_EQ(message_of(fields_.positive("n", 6)), "n: expected an integer from 1 to 6, found 7");
  EXPECT_EQ(message_of(fields_.positive("big", 10)),
            "big: expected an integer from 1 to 10, found 4294967296");
  EXPECT_EQ(message_of(fields_.boolean("text")), "text: expected true or false, found \"x\"");
  EXPECT_EQ(message_of(fields_.text("absent")), "absent: expected a value, found nothing");
  EXPECT_EQ(message_of(fields_.object("inner")->positive("n", 9)),
            "inner.n: expected an integer from 1 to 9, found -1");
  EXPECT_EQ(message_of(fields_.object("ids")), "ids: expected an object, found an array");
  EXPECT_EQ(message_of(fields_.ids("ids", 3)),
            "ids: expected token ids below the vocabulary size 3, found 3");
}

}  // namespace
}  // namespace phalanx::json
