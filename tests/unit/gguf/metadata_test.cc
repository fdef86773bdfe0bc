// SPDX-License-Identifier: Apache-2.0
#include "phalanx/gguf/metadata.h"

#include <limits>

#include <gtest/gtest.h>

#include "phalanx/gguf/file.h"

#include "support/gguf_writer.h"

namespace phalanx::gguf {
namespace {

using test::GgufWriter;

template <typename T>
std::vector<std::byte> bytes_of(T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

// A file with a key of each kind; lives as long as its metadata is looked at.
class MetadataTest : public testing::Test {
 protected:
  MetadataTest() {
    GgufWriter writer;
    writer.text("text", "llama").u32("u32", 7).f32("f32", 0.5F).boolean("bool", 1);
    writer.raw("i8", 1, bytes_of<std::int8_t>(-3));
    writer.raw("u16", 2, bytes_of<std::uint16_t>(65535));
    writer.raw("i16", 3, bytes_of<std::int16_t>(-300));
    writer.raw("u64", 10, bytes_of(std::numeric_limits<std::uint64_t>::max()));
    writer.raw("i64", 11, bytes_of<std::int64_t>(-5'000'000'000));
    writer.raw("f64", 12, bytes_of(0.1)).raw("huge", 12, bytes_of(-1.25e300));
    writer.f32("nan", std::numeric_limits<float>::quiet_NaN());
    writer.texts("texts", {"a", "", "\xFF\xFE"}).floats("floats", {1.5F, -2.0F});
    writer.integers("ints", {-1, 0, 3}).texts("none", {});
    writer.text("long", std::string(500, 'x')).text("control", "a\nb\x01");
    bytes_ = writer.finish();
    file_ = File::parse(bytes_).value();
  }

  [[nodiscard]] const Metadata& keys() const { return file_.metadata(); }

  std::vector<std::byte> bytes_;
  File file_;
};

template <typename T>
void expect_refused(const Result<T>& result, Code code, std::initializer_list<const char*> parts) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), code);
  for (const char* part : parts) {
    EXPECT_NE(result.error().message().find(part), std::string::npos)
        << part << " is not in: " << result.error().message();
  }
}

TEST_F(MetadataTest, ReadsEachKind) {
  EXPECT_EQ(keys().text("text").value(), "llama");
  EXPECT_EQ(keys().integer("u32", 0, 10).value(), 7);
  EXPECT_EQ(keys().integer("i8", -10, 10).value(), -3);
  EXPECT_EQ(keys().integer("u16", 0, 1 << 20).value(), 65535);
  EXPECT_EQ(keys().integer("i16", -1000, 0).value(), -300);
  EXPECT_EQ(keys().integer("i64", -6'000'000'000, 0).value(), -5'000'000'000);
  EXPECT_EQ(keys().number("f32").value(), 0.5);
  EXPECT_EQ(keys().number("f64").value(), 0.1);
  EXPECT_EQ(keys().number("u32").value(), 7.0);
  EXPECT_EQ(keys().number("u64").value(), 18446744073709551616.0);
  EXPECT_TRUE(keys().boolean("bool").value());
}

TEST_F(MetadataTest, ReadsArrays) {
  const auto texts = keys().texts("texts").value();
  EXPECT_EQ(texts, (std::vector<std::string_view>{"a", "", "\xFF\xFE"}));
  EXPECT_EQ(keys().floats("floats").value(), (std::vector<float>{1.5F, -2.0F}));
  EXPECT_EQ(keys().integers("ints").value(), (std::vector<std::int32_t>{-1, 0, 3}));
  EXPECT_EQ(keys().array_size("texts").value(), 3U);
  EXPECT_TRUE(keys().texts("none").value().empty());
}

TEST_F(MetadataTest, NamesAKeyThatIsMissing) {
  EXPECT_FALSE(keys().has("absent"));
  expect_refused(keys().text("absent"), Code::kNotFound, {"\"absent\""});
  expect_refused(keys().texts("absent"), Code::kNotFound, {"\"absent\""});
}

TEST_F(MetadataTest, NamesWhatItFoundInstead) {
  expect_refused(
      keys().text("u32"), Code::kInvalidArgument, {"\"u32\"", "a string", "the uint32 7"});
  expect_refused(keys().integer("text", 0, 9),
                 Code::kInvalidArgument,
                 {"an integer from 0 to 9", "the string \"llama\""});
  expect_refused(keys().boolean("u32"), Code::kInvalidArgument, {"a bool", "uint32 7"});
  expect_refused(keys().number("bool"), Code::kInvalidArgument, {"a number", "bool true"});
  expect_refused(keys().number("nan"), Code::kInvalidArgument, {"a finite number", "nan"});
  expect_refused(
      keys().texts("floats"), Code::kInvalidArgument, {"strings", "an array of 2 float32"});
  expect_refused(keys().floats("ints"), Code::kInvalidArgument, {"an array of 3 int32"});
  expect_refused(keys().integers("text"), Code::kInvalidArgument, {"the string"});
}

TEST_F(MetadataTest, RefusesIntegersOutOfRange) {
  expect_refused(keys().integer("u32", 8, 10), Code::kInvalidArgument, {"from 8 to 10", "7"});
  expect_refused(keys().integer("u64", 0, std::numeric_limits<std::int64_t>::max()),
                 Code::kInvalidArgument,
                 {"18446744073709551615"});
}

TEST_F(MetadataTest, ShowsOnlyWhatATerminalCanTake) {
  const std::string text = describe(keys().values().at("long"));
  EXPECT_LT(text.size(), 100U);
  EXPECT_EQ(describe(keys().values().at("huge")), "the float64 -1.25e+300");
  EXPECT_EQ(describe(keys().values().at("control")), "the string \"a?b?\"");
}

}  // namespace
}  // namespace phalanx::gguf
