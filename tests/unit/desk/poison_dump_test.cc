// SPDX-License-Identifier: Apache-2.0
#include "phalanx/desk/poison_dump.h"

#include <sys/stat.h>

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

TEST(PoisonDump, KeepsTheNewestFew) {
  const test::TempDir temp;
  PoisonDump dump(temp.path());
  std::string last;
  for (std::size_t i = 0; i < PoisonDump::kMaxFiles + 5; ++i) {
    const auto path = dump.write(Choice().choice());
    ASSERT_TRUE(path);
    EXPECT_GT(*path, last);
    last = *path;
  }
  const auto files = std::distance(std::filesystem::directory_iterator(temp.path()),
                                   std::filesystem::directory_iterator());
  EXPECT_EQ(static_cast<std::size_t>(files), PoisonDump::kMaxFiles);
}

}  // namespace
}  // namespace phalanx::desk
