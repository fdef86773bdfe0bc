// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/private_folder.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace phalanx::os {
namespace {

constexpr std::size_t kMaxFiles = 16;

PrivateFolder folder_at(const std::string& path) {
  return {path, "ours-", kMaxFiles};
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(PrivateFolderTest, AFileIsItsOwnersOnlyAndSoIsAFolderThatIsMade) {
  const test::TempDir temp;
  const auto path = folder_at(temp.path() / "a" / "b").write("1", "content");
  ASSERT_TRUE(path) << path.error().to_string();
  EXPECT_EQ(*path, temp.path() / "a" / "b" / "ours-1");
  EXPECT_EQ(content(*path), "content");
  struct stat found {};
  ASSERT_EQ(::stat(path->c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat((temp.path() / "a" / "b").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0700U);
}

TEST(PrivateFolderTest, KeepsTheNewestFewAndWhatIsNotItsOwn) {
  const test::TempDir temp;
  std::ofstream(temp.path() / "notes.txt") << "mine";
  const PrivateFolder folder = folder_at(temp.path());
  std::string last;
  for (std::size_t i = 0; i < kMaxFiles + 5; ++i) {
    const auto path = folder.write(std::to_string(100 + i), "content");
    ASSERT_TRUE(path) << path.error().to_string();
    last = *path;
  }
  const auto files = std::distance(std::filesystem::directory_iterator(temp.path()),
                                   std::filesystem::directory_iterator());
  EXPECT_EQ(static_cast<std::size_t>(files), kMaxFiles + 1);
  EXPECT_TRUE(std::filesystem::exists(last));
  EXPECT_TRUE(std::filesystem::exists(temp.path() / "notes.txt"));
}

TEST(PrivateFolderTest, KeepsWhatItHasWrittenWhateverItIsCalled) {
  const test::TempDir temp;
  for (std::size_t i = 0; i < kMaxFiles + 5; ++i) {
    std::ofstream(temp.path() / ("ours-9" + std::to_string(10 + i))) << "of a time to come";
  }
  const PrivateFolder folder = folder_at(temp.path());
  const auto path = folder.write("500", "content");
  ASSERT_TRUE(path);
  EXPECT_TRUE(std::filesystem::exists(*path));
  const auto files = std::distance(std::filesystem::directory_iterator(temp.path()),
                                   std::filesystem::directory_iterator());
  EXPECT_EQ(static_cast<std::size_t>(files), kMaxFiles);
}

// A limit of this process stands for a disk that is full.
TEST(PrivateFolderTest, LeavesNothingOfAFileThatHasNoRoomAndStillRemovesTheOldest) {
  const test::TempDir temp;
  for (std::size_t i = 0; i < kMaxFiles + 5; ++i) {
    std::ofstream(temp.path() / ("ours-" + std::to_string(10 + i))) << "old";
  }
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{16, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const PrivateFolder folder = folder_at(temp.path());
  const auto path = folder.write("500", "more than sixteen bytes");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, before);
  ASSERT_FALSE(path);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(temp.path())) {
    EXPECT_EQ(content(entry.path()), "old") << entry.path();
    ++files;
  }
  EXPECT_EQ(files, kMaxFiles);
}

TEST(PrivateFolderTest, NamesAFolderItCannotUse) {
  const test::TempDir temp;
  std::ofstream(temp.path() / "file") << "x";
  const PrivateFolder folder = folder_at(temp.path() / "file");
  const auto path = folder.write("500", "content");
  ASSERT_FALSE(path);
  EXPECT_NE(path.error().message().find("file"), std::string::npos);
}

// Known before there is anything to write.
TEST(PrivateFolderTest, TellsWhetherThereIsOrCanBeAFolder) {
  const test::TempDir temp;
  EXPECT_TRUE(folder_at(temp.path()).check());
  EXPECT_TRUE(folder_at(temp.path() / "not/yet").check());
  std::ofstream(temp.path() / "file") << "x";
  const Status below_a_file = folder_at(temp.path() / "file/dumps").check();
  ASSERT_FALSE(below_a_file);
  EXPECT_NE(below_a_file.error().message().find("/file is no folder"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(temp.path() / "not")) << "nothing is made";
}

}  // namespace
}  // namespace phalanx::os
