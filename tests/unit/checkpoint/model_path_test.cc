// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/model_path.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace phalanx::checkpoint {
namespace {

using testing::HasSubstr;

std::string put(const test::TempDir& place, const std::string& name) {
  const std::filesystem::path path = place.path() / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "x";
  return path.string();
}

void expect_refused(const std::string& path, Code code, const std::string& part) {
  const Status status = check_model_path(path);
  ASSERT_FALSE(status) << path;
  EXPECT_EQ(status.error().code(), code) << status.error().message();
  EXPECT_THAT(status.error().message(), HasSubstr(part));
}

TEST(ModelPath, NamesTheModel) {
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
  EXPECT_EQ(model_name_of(put(place, ".gguf")), ".gguf") << "a name is never empty";
  EXPECT_EQ(model_name_of("/"), "model");
}

TEST(ModelPath, SaysThatNothingIsThere) {
  const test::TempDir place;
  expect_refused(place.path().string() + "/absent", Code::kNotFound, "found none");
  expect_refused("Someone/Model-1B", Code::kNotFound, "nothing is fetched from a hub here");
  expect_refused(place.path().string(), Code::kNotFound, "expected config.json, found none");
}

TEST(ModelPath, SaysWhyItCannotTell) {
  const test::TempDir place;
  const std::filesystem::path circle = place.path() / "circle";
  std::filesystem::create_symlink("circle", circle);
  expect_refused(circle.string(), Code::kNotFound, "Too many levels of symbolic links");
}

// As somebody whom the folder is closed to: ends with 0 if the refusal says so.
[[noreturn]] void look_as_nobody(const std::string& path) {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) {
    std::exit(2);
  }
  const Status status = check_model_path(path);
  const bool says = !status && status.error().code() == Code::kFailedPrecondition &&
                    status.error().message().find("Permission denied") != std::string::npos;
  std::exit(says ? 0 : 1);
}

TEST(ModelPath, SaysThatItMayNotLook) {
  namespace fs = std::filesystem;
  const test::TempDir place;
  const fs::path home = place.path() / "home";
  put(place, "home/m/config.json");
  put(place, "home/m/model.safetensors");
  fs::permissions(place.path(), fs::perms::owner_all | fs::perms::others_exec);
  for (const fs::path& closed : {home / "m", home}) {
    fs::permissions(closed, fs::perms::owner_read);
    EXPECT_EXIT(look_as_nobody((home / "m").string()), testing::ExitedWithCode(0), "") << closed;
    fs::permissions(closed, fs::perms::all);
  }
}

TEST(ModelPath, TakesAGgufFileAndNamesTheOneInAFolder) {
  const test::TempDir place;
  const std::string file = put(place, "z.gguf");
  EXPECT_TRUE(check_model_path(file));
  expect_refused(place.path().string(), Code::kNotFound, "name it, as in " + file);
  put(place, "config.json");
  expect_refused(place.path().string(), Code::kNotFound, "name it, as in " + file);
  put(place, "model.safetensors");
  EXPECT_TRUE(check_model_path(place.path().string()));
}

TEST(ModelPath, NamesTheFolderOfAFile) {
  const test::TempDir place;
  for (const char* name : {"config.json", "model.safetensors"}) {
    expect_refused(put(place, name), Code::kInvalidArgument, "as in " + place.path().string());
  }
  EXPECT_TRUE(check_model_path(put(place, "blob"))) << "its bytes say what it is";
}

TEST(ModelPath, KnowsAnAdapter) {
  const test::TempDir place;
  put(place, "adapter_config.json");
  put(place, "adapter_model.safetensors");
  expect_refused(place.path().string(), Code::kNotFound, "found an adapter: merge it");
}

TEST(ModelPath, NamesTheVersionInAFolderOfACache) {
  const test::TempDir place;
  put(place, "refs/main");
  put(place, "snapshots/a/README.md");
  put(place, "snapshots/b/config.json");
  expect_refused(place.path().string(), Code::kNotFound, (place.path() / "snapshots/b").string());
}

TEST(ModelPath, SaysWhichWeightsItFoundInstead) {
  const test::TempDir place;
  put(place, "config.json");
  const std::string folder = place.path().string();
  expect_refused(folder, Code::kNotFound, "model.safetensors.index.json and its files, found none");
  put(place, "pytorch_model-00001-of-00002.bin");
  expect_refused(
      folder, Code::kNotFound, "found pytorch_model-00001-of-00002.bin, which is not read");
  put(place, "model-00001-of-00002.safetensors");
  expect_refused(folder, Code::kNotFound, "found only model-00001-of-00002.safetensors");
  put(place, "model.safetensors.index.json");
  EXPECT_TRUE(check_model_path(folder));
}

}  // namespace
}  // namespace phalanx::checkpoint
