// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/model_folder.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace phalanx::checkpoint {
namespace {

std::string put(const test::TempDir& folder, const std::string& name) {
  const std::string path = folder.path().string() + "/" + name;
  std::ofstream(path) << "x";
  return path;
}

TEST(ModelFolder, TellsAFolderFromAFile) {
  const test::TempDir place;
  const std::string file = put(place, "m.gguf");
  EXPECT_EQ(ModelFolder(place.path().string()).gguf_name(), "");
  ModelFolder named(file);
  EXPECT_EQ(named.gguf_name(), "m.gguf");
  EXPECT_EQ(named.describe("m.gguf"), file);
  EXPECT_TRUE(named.open("m.gguf").has_value());
  EXPECT_EQ(named.open("../m.gguf").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(named.open("n.gguf").error().code(), Code::kNotFound);
}

TEST(ModelFolder, NamesTheModelAfterItsPath) {
  const test::TempDir place;
  std::filesystem::create_directory(place.path().string() + "/Qwen3-0.6B.gguf");
  EXPECT_EQ(model_name_of(place.path().string() + "/Qwen3-0.6B"), "Qwen3-0.6B");
  EXPECT_EQ(model_name_of(place.path().string() + "/Qwen3-0.6B/"), "Qwen3-0.6B");
  EXPECT_EQ(model_name_of(place.path().string() + "/Qwen3-0.6B.gguf"), "Qwen3-0.6B.gguf")
      << "a folder";
  EXPECT_EQ(model_name_of(put(place, "a.Q4_1.gguf")), "a.Q4_1");
  EXPECT_EQ(model_name_of(put(place, "b-00002-of-00003.gguf")), "b");
  EXPECT_EQ(model_name_of(put(place, "c-0002-of-00003.gguf")), "c-0002-of-00003");
  EXPECT_EQ(model_name_of(put(place, "-00002-of-00003.gguf")), "-00002-of-00003");
}

TEST(ModelFolder, SaysWhatToNameInstead) {
  const test::TempDir place;
  const auto none = check_model_path(place.path().string() + "/absent");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code(), Code::kNotFound);
  EXPECT_TRUE(check_model_path(place.path().string()).has_value())
      << "opening it says what is missing";
  const std::string file = put(place, "z.gguf");
  EXPECT_TRUE(check_model_path(file).has_value());
  const auto folder = check_model_path(place.path().string());
  ASSERT_FALSE(folder.has_value());
  EXPECT_NE(folder.error().message().find(file), std::string::npos) << folder.error().message();
  put(place, "config.json");
  EXPECT_TRUE(check_model_path(place.path().string()).has_value());
}

}  // namespace
}  // namespace phalanx::checkpoint
