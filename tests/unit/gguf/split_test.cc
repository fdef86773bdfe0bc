// SPDX-License-Identifier: Apache-2.0
#include "phalanx/gguf/split.h"

#include <gtest/gtest.h>

#include "phalanx/gguf/file.h"

#include "support/gguf_writer.h"

namespace phalanx::gguf {
namespace {

using test::GgufWriter;

Result<SplitKeys> keys_of(GgufWriter& writer) {
  const std::vector<std::byte> bytes = writer.finish();
  return split_keys(File::parse(bytes).value().metadata());
}

TEST(Split, TakesAFileWithoutKeysAsTheOnlyOne) {
  GgufWriter writer;
  const auto keys = keys_of(writer);
  ASSERT_TRUE(keys.has_value());
  EXPECT_EQ(keys->count, 1U);
  EXPECT_EQ(split_names("any.gguf", *keys).value(), std::vector<std::string>{"any.gguf"});
}

TEST(Split, NamesAllFilesFromAnyOfThem) {
  GgufWriter writer;
  writer.u32("split.no", 1).u32("split.count", 3).u32("split.tensors.count", 12);
  const auto keys = keys_of(writer);
  ASSERT_TRUE(keys.has_value()) << keys.error().message();
  EXPECT_EQ(keys->number, 1U);
  EXPECT_EQ(keys->tensors, 12U);
  const std::vector<std::string> expected = {
      "m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"};
  EXPECT_EQ(split_names("m-00002-of-00003.gguf", *keys).value(), expected);
}

TEST(Split, RefusesANameThatItsKeysContradict) {
  const SplitKeys keys{1, 3, 12};
  for (const char* name : {"m.gguf", "m-00001-of-00003.gguf", "m-00002-of-00004.gguf"}) {
    const auto names = split_names(name, keys);
    ASSERT_FALSE(names.has_value()) << name;
    EXPECT_NE(names.error().message().find("-00002-of-00003.gguf"), std::string::npos);
    EXPECT_NE(names.error().message().find(name), std::string::npos);
  }
}

TEST(Split, RefusesKeysThatContradictEachOther) {
  const auto refused = [](GgufWriter& writer, const char* part) {
    const auto keys = keys_of(writer);
    ASSERT_FALSE(keys.has_value());
    EXPECT_EQ(keys.error().code(), Code::kDataLoss);
    EXPECT_NE(keys.error().message().find(part), std::string::npos) << keys.error().message();
  };
  GgufWriter beyond;
  refused(beyond.u32("split.no", 3).u32("split.count", 3).u32("split.tensors.count", 1),
          "split.no");
  GgufWriter many;
  refused(many.u32("split.no", 0).u32("split.count", 65000), "split.count");
  GgufWriter unnumbered;
  refused(unnumbered.u32("split.count", 2), "split.no");
  GgufWriter uncounted;
  refused(uncounted.u32("split.no", 0).u32("split.count", 2), "split.tensors.count");
}

}  // namespace
}  // namespace phalanx::gguf
