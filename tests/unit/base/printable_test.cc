// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/printable.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(Printable, LeavesTextOfAnyLanguageAlone) {
  for (const char* text : {"",
                           "a \"quoted\" \\ word",
                           "Größe — 模型 🙂 नमस्ते",
                           "می\u200Cخواهم"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(printable("a\x1b[2Jb\x1b]0;title\a"), "a\\u{1b}[2Jb\\u{1b}]0;title\\u{7}");
  EXPECT_EQ(printable("one\ntwo\rthree\t\x7f"), "one\\u{a}two\\u{d}three\\u{9}\\u{7f}");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\u{0}");
  EXPECT_EQ(printable("\u009b2J"), "\\u{9b}2J") << "the one-character form of ESC [";
}

TEST(Printable, ShowsWhatWouldChangeTheOrderOrHide) {
  EXPECT_EQ(printable("user\u202Etxt.exe"), "user\\u{202e}txt.exe");
  EXPECT_EQ(printable("\u2066x\u2069\u200F\u061C"), "\\u{2066}x\\u{2069}\\u{200f}\\u{61c}");
  EXPECT_EQ(printable("a\u2028b\u2029\uFEFF\u200B\u00AD"),
            "a\\u{2028}b\\u{2029}\\u{feff}\\u{200b}\\u{ad}");
  EXPECT_EQ(printable("\U000E0041"), "\\u{e0041}");
}

TEST(Printable, ShowsBytesThatAreNoCharacters) {
  EXPECT_EQ(printable("\x9b"
                      "2J\xff"),
            "\\x9b2J\\xff");
  EXPECT_EQ(printable("\xe2\x80"), "\\xe2\\x80") << "cut at the end";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a surrogate pair";
}

}  // namespace
}  // namespace phalanx
