// SPDX-License-Identifier: Apache-2.0
// docs/operations.md lists the flags of phalanxd as its flag table has them.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/settings/options.h"

#include "source_dir.h"

namespace phalanx::settings {
namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c == '|' ? "\\|" : std::string(1, c);
  }
  return result;
}

// "| `--max-num-seqs` | 64 | Most sequences … |"
std::vector<std::string> rows_of_table() {
  Options options;
  const flags::FlagTable table = make_flag_table(&options);
  std::vector<std::string> rows;
  for (const flags::Flag& flag : table.flags()) {
    std::string names;
    for (const std::string& name : flag.names) {
      names += (names.empty() ? "`--" : ", `--") + name + "`";
    }
    if (flag.is_switch) {
      names += ", `--no-" + flag.names.front() + "`";
    }
    rows.push_back("| " + names + " | " + escaped(flag.default_text) + " | " + escaped(flag.help) +
                   " |");
  }
  return rows;
}

std::vector<std::string> rows_of_document() {
  std::ifstream file(std::string(PHALANX_SOURCE_DIR) + "/docs/operations.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `--")) {
      rows.push_back(line);
    }
  }
  return rows;
}

TEST(FlagsDocument, NamesEveryFlagWithItsDefaultAndNoOther) {
  const std::vector<std::string> expected = rows_of_table();
  const std::vector<std::string> found = rows_of_document();
  ASSERT_FALSE(expected.empty());
  for (std::size_t i = 0; i < std::min(expected.size(), found.size()); ++i) {
    ASSERT_EQ(found[i], expected[i]) << "row " << i;
  }
  ASSERT_EQ(found.size(), expected.size())
      << "first that is not on both sides: "
      << (found.size() < expected.size() ? expected[found.size()] : found[expected.size()]);
}

}  // namespace
}  // namespace phalanx::settings
