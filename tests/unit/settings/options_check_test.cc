// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/settings/options.h"

namespace phalanx::settings {
namespace {

std::string refusal(const std::vector<std::string>& more, const std::string& model = "folder") {
  std::vector<std::string> arguments = {model};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Options options;
  flags::FlagTable table = make_flag_table(&options);
  const auto parsed = parse_options(&table, &options, arguments, {});
  return parsed ? "" : parsed.error().message();
}

TEST(CheckOptions, RefusesAListOfNothing) {
  EXPECT_EQ(refusal({"--allowed-hosts", " ,"}),
            "--allowed-hosts: expected names with commas between them, found \" ,\"");
  EXPECT_NE(refusal({"--allowed-origins", ","}).find("--allowed-origins"), std::string::npos);
  EXPECT_EQ(refusal({"--allowed-hosts", ",a.example,"}), "");
  EXPECT_EQ(refusal({"--allowed-hosts", ""}), "");
}

TEST(CheckOptions, RefusesAModelNameThatNobodyCouldSend) {
  EXPECT_NE(refusal({"--served-model-name", "\xFF\xFE"}).find("UTF-8"), std::string::npos);
  EXPECT_NE(refusal({"--served-model-name", "a\nb"}).find("control"), std::string::npos);
  EXPECT_NE(refusal({"--served-model-name", std::string(257, 'a')}).find("found 257"),
            std::string::npos);
  EXPECT_EQ(refusal({"--served-model-name", std::string(254, 'a') + "\u00e4"}), "");
}

TEST(CheckOptions, RefusesAPathThatIsTooLong) {
  EXPECT_NE(refusal({}, std::string(4097, 'a')).find("--model: expected a path"),
            std::string::npos);
}

TEST(CheckOptions, TakesMinusOneForTheDefaultTemperatureAndNothingElseBelowZero) {
  EXPECT_EQ(refusal({"--temperature", "-1"}), "");
  EXPECT_EQ(refusal({"--temperature", "0"}), "");
  EXPECT_NE(refusal({"--temperature", "-0.5"}).find("--temperature"), std::string::npos);
}

}  // namespace
}  // namespace phalanx::settings
