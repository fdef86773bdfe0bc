// SPDX-License-Identifier: Apache-2.0
#include "phalanx/gguf/file.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "source_dir.h"
#include "support/gguf_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace phalanx::gguf {
namespace {

using test::GgufWriter;

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ4_0 = 2;
constexpr std::uint32_t kIq2Xs = 17;

std::vector<std::byte> zeros(std::size_t count) {
  return std::vector<std::byte>(count);
}

// Expects a refusal whose message holds every one of `parts`.
void expect_refused(std::span<const std::byte> bytes,
                    std::initializer_list<const char*> parts,
                    Code code = Code::kDataLoss) {
  const auto file = File::parse(bytes);
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code(), code) << file.error().message();
  for (const char* part : parts) {
    EXPECT_NE(file.error().message().find(part), std::string::npos)
        << part << " is not in: " << file.error().message();
  }
}

void expect_refused(GgufWriter& writer,
                    std::initializer_list<const char*> parts,
                    Code code = Code::kDataLoss) {
  expect_refused(writer.finish(), parts, code);
}

std::vector<std::byte> number_bytes(std::initializer_list<std::uint64_t> words,
                                    std::uint32_t first) {
  std::vector<std::byte> bytes;
  const auto append = [&](auto value) {
    const auto part = std::as_bytes(std::span(&value, 1));
    bytes.insert(bytes.end(), part.begin(), part.end());
  };
  append(first);
  for (const std::uint64_t word : words) {
    append(word);
  }
  return bytes;
}

GgufWriter small_file() {
  GgufWriter writer;
  writer.text("general.architecture", "llama").texts("tokens", {"a", "bc"});
  writer.tensor("first", kF32, {2, 3}, zeros(24)).tensor("second", kQ4_0, {64}, zeros(36));
  return writer;
}

TEST(GgufFile, ReadsNamesShapesAndPlaces) {
  for (const std::uint32_t version : {2U, 3U}) {
    GgufWriter writer(version);
    writer.tensor("a", kF32, {2, 3}, std::vector<std::byte>(24, std::byte{1}));
    writer.tensor("b", kQ4_0, {4, 64}, std::vector<std::byte>(144, std::byte{2}));
    writer.tensor("scalar", kF32, {}, std::vector<std::byte>(4, std::byte{3}));
    const std::vector<std::byte> bytes = writer.finish();
    const auto file = File::parse(bytes);
    ASSERT_TRUE(file.has_value()) << file.error().message();
    EXPECT_EQ(file->version(), version);
    ASSERT_EQ(file->tensors().size(), 3U);
    const Tensor* b = file->find("b");
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(b->shape, (std::vector<std::uint64_t>{4, 64}));
    EXPECT_EQ(b->type, TensorType::kQ4_0);
    EXPECT_EQ(b->bytes.size(), 144U);
    EXPECT_EQ(b->bytes.front(), std::byte{2});
    EXPECT_EQ(b->bytes.data(), bytes.data() + b->offset);
    EXPECT_EQ(b->elements(), 256U);
    EXPECT_EQ(file->find("scalar")->elements(), 1U);
    EXPECT_EQ(file->find("c"), nullptr);
  }
}

TEST(GgufFile, FollowsTheAlignmentOfTheFile) {
  GgufWriter writer;
  writer.alignment(256).tensor("a", kF32, {1}, zeros(4)).tensor("b", kF32, {1}, zeros(4));
  const std::vector<std::byte> bytes = writer.finish();
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file.has_value()) << file.error().message();
  EXPECT_EQ(file->find("a")->offset % 256, 0U);
  EXPECT_EQ(file->find("b")->offset, file->find("a")->offset + 256);
}

TEST(GgufFile, HasMetadataThatCanBeReadWithoutTheRest) {
  const std::vector<std::byte> bytes = small_file().finish();
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file.has_value()) << file.error().message();
  const std::size_t size = file->metadata_bytes();
  const auto metadata = parse_metadata(std::span(bytes).first(size));
  ASSERT_TRUE(metadata.has_value()) << metadata.error().message();
  ASSERT_EQ(metadata->values().size(), 2U);
  EXPECT_EQ(*metadata->text("general.architecture"), "llama");
  EXPECT_EQ(*metadata->texts("tokens"), *file->metadata().texts("tokens"));
  for (std::size_t less = 0; less < size; ++less) {
    EXPECT_FALSE(parse_metadata(std::span(bytes).first(less)).has_value()) << less;
  }
  for (const std::size_t more : {size + 1, bytes.size()}) {
    const auto refused = parse_metadata(std::span(bytes).first(more));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), Code::kDataLoss);
    EXPECT_NE(refused.error().message().find(std::to_string(more - size) + " bytes more"),
              std::string::npos)
        << refused.error().message();
  }
}

TEST(GgufFile, EndsBehindItsMetadataIfItHasNoTensors) {
  GgufWriter writer;
  const std::vector<std::byte> bytes = writer.u32("general.alignment", 1).finish();
  EXPECT_EQ(File::parse(bytes)->metadata_bytes(), 24U + 8 + 17 + 4 + 4);
}

TEST(GgufFile, RefusesAFileThatEndsAnywhere) {
  const std::vector<std::byte> bytes = small_file().finish();
  ASSERT_TRUE(File::parse(bytes).has_value());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(File::parse(std::span(bytes).first(size)).has_value()) << size;
  }
  expect_refused(std::span(bytes).first(bytes.size() - 1),
                 {"\"second\"", "expected 36 bytes", "truncated"});
}

TEST(GgufFile, RefusesOtherFilesAndVersions) {
  expect_refused(zeros(100), {"\"GGUF\""});
  GgufWriter first(1);
  expect_refused(first, {"2 or 3", "found 1"}, Code::kUnimplemented);
  GgufWriter big(0x03000000);
  expect_refused(big, {"big-endian"}, Code::kUnimplemented);
}

TEST(GgufFile, RefusesCountsThatLie) {
  GgufWriter keys = small_file();
  expect_refused(keys.claim_keys(std::uint64_t{1} << 60), {"keys", "1152921504606846976"});
  GgufWriter tensors = small_file();
  expect_refused(tensors.claim_tensors(1'000'000'000'000), {"tensors", "1000000000000"});
  expect_refused(tensors.claim_tensors(1'000'001), {"at most 1000000 tensors", "1000001"});
  // One more than there are: what follows is read as a key, and makes none.
  GgufWriter one_more = small_file();
  expect_refused(one_more.claim_keys(3), {"truncated"});
  GgufWriter array;
  array.raw("list", 9, number_bytes({std::uint64_t{1} << 62}, 6));
  expect_refused(array, {"\"list\"", "elements", "4611686018427387904"});
  GgufWriter text;
  text.raw("name", 8, number_bytes({~std::uint64_t{0} - 7}, 0));
  expect_refused(text, {"\"name\"", "truncated, or a length that lies"});
}

TEST(GgufFile, RefusesKeysAndTensorsThatComeTwice) {
  GgufWriter keys;
  expect_refused(keys.u32("same", 1).u32("same", 2), {"\"same\"", "twice"});
  GgufWriter tensors;
  tensors.tensor("w", kF32, {1}, zeros(4)).tensor("w", kF32, {1}, zeros(4));
  expect_refused(tensors, {"\"w\"", "twice"});
}

TEST(GgufFile, RefusesOffsetsThatLie) {
  GgufWriter overlap;
  overlap.tensor("a", kF32, {16}, zeros(128)).tensor_at("b", kF32, {8}, 32);
  expect_refused(overlap, {"\"a\"", "\"b\"", "overlap"});
  GgufWriter misaligned;
  misaligned.tensor("a", kF32, {16}, zeros(128)).tensor_at("b", kF32, {1}, 68);
  expect_refused(misaligned, {"\"b\"", "multiple of 32", "68"});
  GgufWriter beyond;
  beyond.tensor("a", kF32, {16}, zeros(128)).tensor_at("b", kF32, {1}, 1 << 20);
  expect_refused(beyond, {"\"b\"", "1048576", "128"});
  GgufWriter wrapped;
  wrapped.tensor("a", kF32, {16}, zeros(128)).tensor_at("b", kF32, {1}, ~std::uint64_t{31});
  expect_refused(wrapped, {"\"b\"", "an offset that lies"});
}

TEST(GgufFile, RefusesAbsurdDimensions) {
  const auto refused = [](const std::vector<std::uint64_t>& shape,
                          std::initializer_list<const char*> parts,
                          std::uint32_t type = kF32) {
    GgufWriter writer;
    expect_refused(writer.tensor("w", type, shape, zeros(64)), parts);
  };
  const std::uint64_t huge = std::uint64_t{1} << 32;
  refused({huge, huge}, {"\"w\"", "2^63"});
  refused({std::uint64_t{1} << 61}, {"\"w\"", "64 bytes of data"});
  refused({std::uint64_t{1} << 62}, {"\"w\"", "2^64 bytes"});
  refused({0, 4}, {"\"w\"", "from 1", "found 0"});
  refused({1, 1, 1, 1, 1}, {"\"w\"", "at most 4", "found 5"});
  refused({2, 33}, {"\"w\"", "multiple of 32", "Q4_0", "33"}, kQ4_0);
  refused({2, 128}, {"\"w\"", "multiple of 256", "IQ2_XS", "128"}, kIq2Xs);
  // Rows, not the whole, hold blocks.
  refused({32, 1}, {"\"w\"", "multiple of 32"}, kQ4_0);
}

TEST(GgufFile, RefusesNamesThatAreNone) {
  const auto refused = [](std::string_view name, const char* part) {
    GgufWriter key;
    expect_refused(key.u32(name, 1), {"a key", part});
    GgufWriter tensor;
    expect_refused(tensor.tensor(name, kF32, {1}, zeros(4)), {"a tensor name", part});
  };
  refused("", "found 0");
  refused(std::string(65536, 'x'), "found 65536");
  for (const char* name : {"\xFF", "a\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"}) {
    refused(name, "UTF-8");
  }
  refused(std::string_view("a\0b", 3), "UTF-8");
  GgufWriter good;
  EXPECT_TRUE(
      File::parse(good.u32("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 1).finish()).has_value());
}

TEST(GgufFile, RefusesValuesThatAreNone) {
  GgufWriter type;
  expect_refused(type.raw("k", 13, zeros(8)), {"\"k\"", "below 13", "found 13"});
  GgufWriter boolean;
  expect_refused(boolean.boolean("k", 2), {"\"k\"", "0 or 1", "found 2"});
  GgufWriter deep;
  std::vector<std::byte> nested;
  for (int i = 0; i < 1000; ++i) {
    const auto head = number_bytes({1}, 9);
    nested.insert(nested.end(), head.begin(), head.end());
  }
  expect_refused(deep.raw("k", 9, nested), {"\"k\"", "at most 4 deep"});
}

TEST(GgufFile, NamesATensorTypeItDoesNotKnow) {
  GgufWriter writer;
  expect_refused(
      writer.tensor("w", 77, {1}, zeros(4)), {"\"w\"", "number 77", "Q4_K"}, Code::kUnimplemented);
}

// Files of a fork have number 42 for blocks of 128 elements in 34 bytes, which take less.
TEST(GgufFile, SaysWhatBlocksOfAnotherLayoutAre) {
  constexpr std::uint64_t kElements = 4096;
  const std::vector<std::byte> other = zeros(kElements / 128 * 34);
  GgufWriter between;
  between.tensor("a", 42, {kElements}, other).tensor("b", kF32, {256}, zeros(1024));
  expect_refused(between, {"\"a\"", "\"b\"", "overlap", "Q2_0", "34 bytes for 128 elements"});
  GgufWriter last;
  last.tensor("a", kF32, {1}, zeros(4)).tensor("b", 42, {kElements}, other);
  expect_refused(last, {"\"b\"", "expected 1152 bytes", "34 bytes for 128 elements"});
  GgufWriter near_the_end;
  near_the_end.tensor("a", 42, {kElements}, other).tensor("b", kF32, {8}, zeros(32));
  expect_refused(near_the_end, {"\"a\"", "truncated", "34 bytes for 128 elements"});
  GgufWriter ours;
  ours.tensor("a", 42, {kElements}, zeros(kElements / 64 * 18)).tensor("b", kF32, {1}, zeros(4));
  EXPECT_TRUE(File::parse(ours.finish()).has_value());
  // A file that is cut short is not one of those.
  GgufWriter cut;
  cut.tensor("a", 42, {kElements}, zeros(100));
  const auto refused = File::parse(cut.finish());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message().find("34 bytes"), std::string::npos);
}

TEST(GgufFile, RefusesAnAlignmentThatIsNone) {
  GgufWriter odd;
  expect_refused(odd.u32("general.alignment", 24), {"general.alignment", "power of two", "24"});
  GgufWriter zero;
  expect_refused(zero.u32("general.alignment", 0), {"general.alignment", "0"});
  GgufWriter kind;
  expect_refused(kind.text("general.alignment", "32"), {"general.alignment", "the string"});
}

TEST(GgufFile, SurvivesTheCorpusOfTheFuzzer) {
  const std::string folder = std::string(PHALANX_SOURCE_DIR) + "/tests/fuzz/gguf/corpus";
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream stream(file.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(stream)),
                           std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    ++files;
  }
  EXPECT_GE(files, 20);
}

}  // namespace
}  // namespace phalanx::gguf
