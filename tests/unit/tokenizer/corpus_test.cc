// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "source_dir.h"
#include "test_data.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace phalanx::tokenizer {
namespace {

void feed(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

// Every file of the fuzzer's corpus, whole, cut short and with bytes changed.
TEST(TokenizerCorpus, IsReadOrRefusedWithoutHarm) {
  const auto folder =
      std::filesystem::path(PHALANX_SOURCE_DIR) / "tests" / "fuzz" / "tokenizer" / "corpus";
  std::size_t files = 0;
  std::mt19937 random(5);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path());
    const std::string bytes = read_text(entry.path());
    feed(bytes);
    for (int i = 0; i < 8 && bytes.size() > 1; ++i) {
      feed(bytes.substr(0, 1 + random() % bytes.size()));
      std::string changed = bytes;
      changed[1 + random() % (changed.size() - 1)] = static_cast<char>(random());
      feed(changed);
    }
    ++files;
  }
  EXPECT_GE(files, 20U);
}

}  // namespace
}  // namespace phalanx::tokenizer
