// SPDX-License-Identifier: Apache-2.0
#include "phalanx/desk/poison_dump.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "phalanx/wire/codec.h"
#include "phalanx/wire/frame_header.h"

#include "support/temp_dir.h"

namespace phalanx::desk {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Choice {
  dispatch::Generation generation;
  std::vector<TokenId> produced{7, 8};
  Error error{Code::kPoisoned, "killed by \"SIGSEGV\""};
  Choice() {
    generation.label = "req-1";
    generation.prompt_ids = {1, 2, 3};
    generation.stop.max_tokens = 5;
    generation.sampling.temperature = 0.5F;
    generation.sampling.seed = UINT64_MAX;
    generation.sampling.logit_bias = {{4, -1.5F}};
  }
  [[nodiscard]] dispatch::PoisonedChoice choice() const {
    return {RequestId(9), 2, generation, produced, error};
  }
};

TEST(PoisonDump, HoldsIdsAndParametersForItsOwnerOnly) {
  const test::TempDir temp;
  PoisonDump dump(temp.path() / "a" / "b");
  const auto path = dump.write(Choice().choice());
  ASSERT_TRUE(path) << path.error().to_string();
  EXPECT_TRUE(path->ends_with(".dump")) << *path;
  const std::string bytes = content(*path);
  const auto size =
      wire::frame_bytes_of(bytes.substr(0, wire::kFrameHeaderBytes), wire::kMaxDumpBytes);
  ASSERT_TRUE(size) << size.error().message();
  ASSERT_EQ(bytes.size(), wire::kFrameHeaderBytes + *size);
  const auto record = wire::decode_poisoned_request(bytes.substr(wire::kFrameHeaderBytes));
  ASSERT_TRUE(record) << record.error().message();
  const Choice expected;
  EXPECT_EQ(*record,
            (wire::PoisonedRequest{.error = "killed by \"SIGSEGV\"",
                                   .label = "req-1",
                                   .request = RequestId(9),
                                   .choice = 2,
                                   .sampling = expected.generation.sampling,
                                   .stop = expected.generation.stop,
                                   .prompt_ids = {1, 2, 3},
                                   .produced_ids = {7, 8}}));
  struct stat found {};
  ASSERT_EQ(::stat(path->c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat((temp.path() / "a" / "b").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0700U);
}

TEST(PoisonDump, KeepsTheNewestFewAndWhatIsNotItsOwn) {
  const test::TempDir temp;
  std::ofstream(temp.path() / "notes.txt") << "mine";
  PoisonDump dump(temp.path());
  std::string last;
  for (std::size_t i = 0; i < PoisonDump::kMaxFiles + 5; ++i) {
    const auto path = dump.write(Choice().choice());
    ASSERT_TRUE(path);
    last = *path;
  }
  const auto files = std::distance(std::filesystem::directory_iterator(temp.path()),
                                   std::filesystem::directory_iterator());
  EXPECT_EQ(static_cast<std::size_t>(files), PoisonDump::kMaxFiles + 1);
  EXPECT_TRUE(std::filesystem::exists(last));
  EXPECT_TRUE(std::filesystem::exists(temp.path() / "notes.txt"));
}

TEST(PoisonDump, KeepsWhatItHasWrittenThoughTheClockWasSetBack) {
  const test::TempDir temp;
  for (std::size_t i = 0; i < PoisonDump::kMaxFiles + 5; ++i) {
    std::ofstream(temp.path() /
                  ("poisoned-9" + std::to_string(100000000000 + i) + "-1-000001.dump"))
        << "of a time to come";
  }
  PoisonDump dump(temp.path());
  const auto path = dump.write(Choice().choice());
  ASSERT_TRUE(path);
  EXPECT_TRUE(std::filesystem::exists(*path));
  const auto files = std::distance(std::filesystem::directory_iterator(temp.path()),
                                   std::filesystem::directory_iterator());
  EXPECT_EQ(static_cast<std::size_t>(files), PoisonDump::kMaxFiles);
}

// A limit of this process stands for a disk that is full.
TEST(PoisonDump, LeavesNothingOfAFileThatHasNoRoomAndStillRemovesTheOldest) {
  const test::TempDir temp;
  for (std::size_t i = 0; i < PoisonDump::kMaxFiles + 5; ++i) {
    std::ofstream(temp.path() / ("poisoned-" + std::to_string(10 + i) + ".dump")) << "old";
  }
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{16, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  PoisonDump dump(temp.path());
  const auto path = dump.write(Choice().choice());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, before);
  ASSERT_FALSE(path);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(temp.path())) {
    EXPECT_EQ(content(entry.path()), "old") << entry.path();
    ++files;
  }
  EXPECT_EQ(files, PoisonDump::kMaxFiles);
}

TEST(PoisonDump, NamesAFolderItCannotUse) {
  const test::TempDir temp;
  std::ofstream(temp.path() / "file") << "x";
  PoisonDump dump(temp.path() / "file");
  const auto path = dump.write(Choice().choice());
  ASSERT_FALSE(path);
  EXPECT_NE(path.error().message().find("file"), std::string::npos);
}

// Known before there is anything to write.
TEST(PoisonDump, TellsWhetherThereIsOrCanBeAFolder) {
  const test::TempDir temp;
  EXPECT_TRUE(PoisonDump(temp.path()).check());
  EXPECT_TRUE(PoisonDump(temp.path() / "not/yet").check());
  std::ofstream(temp.path() / "file") << "x";
  const Status below_a_file = PoisonDump(temp.path() / "file/dumps").check();
  ASSERT_FALSE(below_a_file);
  EXPECT_NE(below_a_file.error().message().find("/file is no folder"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(temp.path() / "not")) << "nothing is made";
}

}  // namespace
}  // namespace phalanx::desk
