// SPDX-License-Identifier: Apache-2.0
#include "inspect_view.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace phalanx::app {
namespace {

constexpr const char* kHostile = "x\x1b]0;title\a\n  can be served\u202E\x9b";
constexpr const char* kShown = "x\\u{1b}]0;title\\u{7}\\u{a}  can be served\\u{202e}\\x9b";

// Every text of it as a hostile file might have it.
checkpoint::Inspection hostile() {
  checkpoint::Inspection found;
  found.path = kHostile;
  found.format = kHostile;
  found.architecture = kHostile;
  found.name = kHostile;
  found.tokenizer = kHostile;
  found.warnings.push_back(kHostile);
  found.types[kHostile] = {1, 2, 3};
  found.obstacles.push_back({kHostile, unimplemented(kHostile)});
  return found;
}

TEST(InspectionText, NothingFromAFileReachesTheTerminalRaw) {
  const std::string text = inspection_text(hostile(), std::nullopt, {});
  std::size_t shown = 0;
  for (std::size_t at = text.find(kShown); at != std::string::npos;
       at = text.find(kShown, at + 1)) {
    ++shown;
  }
  EXPECT_EQ(shown, 9U) << text;
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char byte) {
    return byte == '\n' || (byte >= 0x20 && byte < 0x7F);
  })) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7) << "no line can be forged";
}

TEST(InspectionJson, IsAscii) {
  const std::string text = inspection_json(hostile(), std::nullopt, {});
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char byte) {
    return byte == '\n' || (byte >= 0x20 && byte < 0x7F);
  })) << text;
  EXPECT_NE(text.find(R"(x\u001b]0;title\u0007\n  can be served\u202e)"), std::string::npos);
}

}  // namespace
}  // namespace phalanx::app
