// SPDX-License-Identifier: Apache-2.0
#include "phalanx/json/text.h"

#include <gtest/gtest.h>

namespace phalanx::json {
namespace {

std::string escaped(std::string_view text, Characters characters = Characters::kUtf8) {
  std::string out = ">";
  append_escaped(text, characters, out);
  return out.substr(1);
}

std::string ascii(std::string_view text) {
  return escaped(text, Characters::kAscii);
}

TEST(JsonText, EscapesWhatJsonCannotHold) {
  EXPECT_EQ(escaped(""), "");
  EXPECT_EQ(escaped("plain / text"), "plain / text");
  EXPECT_EQ(escaped("a\"b\\c"), R"(a\"b\\c)");
  EXPECT_EQ(escaped("\n\r\t\b\f"), R"(\n\r\t\b\f)");
  EXPECT_EQ(escaped(std::string_view("\0\x01\x1F", 3)), R"(\u0000\u0001\u001f)");
}

TEST(JsonText, KeepsOtherCharactersOrWritesThemInAscii) {
  EXPECT_EQ(escaped("\x7F\xC3\xA9\xE2\x80\xA8\xF0\x9F\x98\x80"),
            "\x7F\xC3\xA9\xE2\x80\xA8\xF0\x9F\x98\x80");
  EXPECT_EQ(ascii("a\xC3\xA9z"), R"(a\u00e9z)");
  EXPECT_EQ(ascii("\xE2\x80\xA8\xF0\x9F\x98\x80"), R"(\u2028\ud83d\ude00)");
  EXPECT_EQ(ascii("\xF4\x8F\xBF\xBF"), R"(\udbff\udfff)");
  EXPECT_EQ(ascii("\x7F"), R"(\u007f)");
}

TEST(JsonText, ReplacesEachByteThatIsNoCharacter) {
  EXPECT_EQ(escaped("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(escaped("\xE2\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escaped("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
  EXPECT_EQ(escaped("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // surrogate
  EXPECT_EQ(ascii("\x80"), R"(\ufffd)");
}

}  // namespace
}  // namespace phalanx::json
