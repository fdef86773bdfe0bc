// SPDX-License-Identifier: Apache-2.0
#include "phalanx/json/value.h"

#include <limits>

#include <gtest/gtest.h>

#include "phalanx/json/writer.h"

namespace phalanx::json {
namespace {

std::string error_of(std::string_view text, const Limits& limits = {}) {
  const auto parsed = parse(text, limits);
  return parsed ? "" : parsed.error().message();
}

TEST(JsonValue, KeepsTheOrderOfKeysAndIntegersThatFit) {
  const auto value = parse(R"({"b": 9223372036854775807, "a": [1.5, true, null, "x"]})");
  ASSERT_TRUE(value) << value.error().message();
  ASSERT_NE(value->find("b"), nullptr);
  EXPECT_EQ(*value->find("b")->as_int(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(value->find("c"), nullptr);
  Writer writer;
  writer.value(*value);
  EXPECT_EQ(writer.take(), R"({"b":9223372036854775807,"a":[1.5,true,null,"x"]})");
}

TEST(JsonValue, AnIntegerPast64BitsIsANumberThatIsShownAsItIs) {
  for (const std::string text : {"9223372036854775808",
                                 "18446744073709551615",
                                 "-9223372036854775809",
                                 "123456789012345678901234567890"}) {
    const auto value = parse("[" + text + "]");
    ASSERT_TRUE(value) << text;
    const Value& number = value->as_array()->front();
    EXPECT_EQ(number.as_int(), nullptr) << text;
    ASSERT_NE(number.as_double(), nullptr) << text;
    EXPECT_EQ(*number.as_double(), std::stod(text));
    EXPECT_EQ(describe(number), text);
    Writer writer;
    writer.value(*value);
    EXPECT_EQ(writer.take(), "[" + text + "]");
  }
  const auto real = parse("[18446744073709551615.0,1e20]");
  ASSERT_TRUE(real);
  Writer writer;
  writer.value(*real);
  EXPECT_EQ(writer.take(), "[18446744073709551616.0,1e+20]");
  EXPECT_EQ(describe(*parse(std::string(300, '1'))), "an integer of 300 bytes");
}

TEST(JsonValue, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "[1,]", "{} x", "nan", "'a'", "\"\xFF\"", "{\"a\" 1}"}) {
    EXPECT_NE(error_of(text).find("not valid JSON at byte"), std::string::npos) << text;
  }
}

TEST(JsonValue, TellsALittleOfWhatIsNoJson) {
  const std::string blanks(1'000'000, '\n');
  EXPECT_EQ(
      error_of("{\"a\":1" + blanks + "x"),
      "not valid JSON at byte 1000007: syntax error while parsing object - invalid literal; last "
      "read: \"" +
          [] {
            std::string shown;
            for (int i = 0; i < 39; ++i) {
              shown += "\\n";
            }
            return shown;
          }() +
          "x\"");
  EXPECT_LT(error_of("[\"" + std::string(1'000'000, 'a') + "\xFF\"]").size(), 300U);
  EXPECT_LT(error_of("[" + std::string(1'000'000, '1') + "]").size(), 300U);
  EXPECT_NE(error_of("[1e999]").find("number overflow"), std::string::npos);
  EXPECT_NE(error_of("{\"a\" 1}").find("unexpected number literal; expected ':'"),
            std::string::npos);
}

TEST(JsonValue, TakesBlanksWhereTheyMeanNothingAndKeepsThoseOfStrings) {
  const auto value = parse("\n\n{ \t\"a  \\\"  b\" \r\n:  [1 ,\n\n 2, \"\\\\\"  ] }  \n");
  ASSERT_TRUE(value) << error_of("");
  const Value* list = value->find("a  \"  b");
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->as_array()->size(), 3U);
  EXPECT_EQ(*(*list->as_array())[2].as_string(), "\\");
  EXPECT_NE(error_of("[1  2]"), "");
}

TEST(JsonValue, RefusesWhatStandsBehindANul) {
  using namespace std::string_literals;
  EXPECT_EQ(error_of("{\"a\":1}\0{\"b\":"s), "not valid JSON at byte 8: a NUL");
  EXPECT_NE(error_of("{\"a\":1}\0\0"s), "");
  EXPECT_NE(error_of("\"a\0b\""s), "");
}

TEST(JsonValue, RefusesAKeyThatStandsTwiceInSmallAndLargeObjects) {
  EXPECT_NE(error_of(R"({"a": 1, "a": 2})").find("\"a\" stands twice"), std::string::npos);
  std::string large = "{";
  for (int i = 0; i < 40; ++i) {
    large += "\"k" + std::to_string(i) + "\": 0, ";
  }
  EXPECT_NE(error_of(large + "\"k7\": 1}").find("\"k7\" stands twice"), std::string::npos);
  EXPECT_EQ(error_of(large + "\"other\": 1}"), "");
  EXPECT_EQ(error_of(R"({"a": {"a": 1}, "b": {"a": 2}})"), "");
}

TEST(JsonValue, HoldsEachLimitExactly) {
  const std::string four = "[[[[]]]]";
  EXPECT_EQ(error_of(four, {.depth_max = 4}), "");
  EXPECT_NE(error_of(four, {.depth_max = 3}).find("deeper than 3"), std::string::npos);
  EXPECT_EQ(error_of("[1, 2, 3]", {.values_max = 4}), "");
  EXPECT_NE(error_of("[1, 2, 3]", {.values_max = 3}).find("more than 3 values"), std::string::npos);
  EXPECT_EQ(error_of("[1]", {.bytes_max = 3}), "");
  EXPECT_NE(error_of("[1] ", {.bytes_max = 3}).find("at most 3 bytes of JSON"), std::string::npos);
}

TEST(JsonValue, DeepNestingCostsNoStack) {
  EXPECT_NE(error_of(std::string(1'000'000, '[')).find("deeper than 64"), std::string::npos);
}

}  // namespace
}  // namespace phalanx::json
