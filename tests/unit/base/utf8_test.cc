// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/utf8.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

using Kind = Utf8Unit::Kind;

void expect_unit(std::string_view text, Kind kind, std::size_t bytes) {
  const Utf8Unit unit = next_utf8_unit(text);
  EXPECT_EQ(unit.kind, kind) << text;
  EXPECT_EQ(unit.bytes, bytes) << text;
}

TEST(Utf8, NextUnitIsACharacterOrAMaximalIllFormedPart) {
  expect_unit("a", Kind::kCharacter, 1);
  expect_unit("\xC3\xA9x", Kind::kCharacter, 2);
  expect_unit("\xE2\x80\xA8", Kind::kCharacter, 3);
  expect_unit("\xF4\x8F\xBF\xBF", Kind::kCharacter, 4);
  expect_unit("\xF4\x90\x80\x80", Kind::kIllFormed, 1);  // past U+10FFFF
  expect_unit("\xE2\x80x", Kind::kIllFormed, 2);
  expect_unit("\x80", Kind::kIllFormed, 1);
  expect_unit("\xC3", Kind::kUnfinished, 1);
  expect_unit("\xF0\x9F\x98", Kind::kUnfinished, 3);
}

// Each code point in its one encoding is valid, and nothing else of that length is.
TEST(Utf8, ValidIsExactlyWhatCodePointsEncodeTo) {
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    std::string text;
    append_utf8(code_point, text);
    const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
    ASSERT_EQ(is_valid_utf8(text), !surrogate) << static_cast<std::uint32_t>(code_point);
    if (!surrogate) {
      std::size_t position = 0;
      ASSERT_EQ(next_code_point(text, position), code_point);
      ASSERT_EQ(position, text.size());
      ASSERT_EQ(previous_code_point(text, position), code_point);
    }
  }
}

TEST(Utf8, InvalidBehindAsciiIsFoundAtAnyPlace) {
  for (std::size_t ascii = 0; ascii < 20; ++ascii) {
    const std::string head(ascii, 'a');
    EXPECT_TRUE(is_valid_utf8(head));
    EXPECT_TRUE(is_valid_utf8(head + "\xC3\xA9z"));
    EXPECT_FALSE(is_valid_utf8(head + "\xC3"));
    EXPECT_FALSE(is_valid_utf8(head + "\xC0\xAF" + head));      // overlong
    EXPECT_FALSE(is_valid_utf8(head + "\xED\xA0\x80" + head));  // surrogate
    EXPECT_FALSE(is_valid_utf8(head + "\xFF" + head));
  }
}

TEST(Utf8, APrefixEndsBetweenCharacters) {
  const std::string text = "a€𝄞b";  // 1, 3, 4 and 1 bytes
  const std::vector<std::size_t> ends = {0, 1, 1, 1, 4, 4, 4, 4, 8, 9, 9};
  for (std::size_t most = 0; most < ends.size(); ++most) {
    EXPECT_EQ(utf8_prefix(text, most), text.substr(0, ends[most])) << most;
  }
  const std::string wild(20, '\x80');
  EXPECT_EQ(utf8_prefix(wild, 10).size(), 7U) << "no character is as long";
}

TEST(Utf8, ReplacingPutsOneMarkForEachIllFormedPart) {
  std::string out;
  append_replacing("a\xE2\x80z\xFF\xFF", out);
  EXPECT_EQ(out, "a\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace phalanx
