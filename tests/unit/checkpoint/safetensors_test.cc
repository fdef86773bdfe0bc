// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "source_dir.h"
#include "test_checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace phalanx::checkpoint {
namespace {

using testing::Test;

std::string entry(const char* dtype, const char* shape, std::uint64_t begin, std::uint64_t end) {
  return std::string("{\"dtype\":\"") + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

// Expects a refusal whose message holds every one of `parts`.
void expect_refused(std::span<const std::byte> file, std::initializer_list<const char*> parts) {
  const auto directory = parse_safetensors(file);
  ASSERT_FALSE(directory.has_value());
  EXPECT_EQ(directory.error().code(), Code::kDataLoss);
  for (const char* part : parts) {
    EXPECT_NE(directory.error().message().find(part), std::string::npos)
        << part << " is not in: " << directory.error().message();
  }
}

void expect_header_refused(const std::string& header, std::initializer_list<const char*> parts) {
  expect_refused(raw_safetensors(header, 64), parts);
}

TEST(Safetensors, ReadsNamesShapesAndPlaces) {
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"},\"a\":" + entry("BF16", "[2, 4]", 0, 16) +
      ",\"b\":" + entry("F32", "[]", 16, 20) + ",\"c\":" + entry("I64", "[0]", 20, 20) + "}   ";
  const auto directory = parse_safetensors(raw_safetensors(header, 20));
  ASSERT_TRUE(directory.has_value()) << directory.error().to_string();
  ASSERT_EQ(directory->size(), 3U);
  const std::size_t data = 8 + header.size();
  const SafetensorsEntry a{"BF16", {2, 4}, data, 16};
  const SafetensorsEntry b{"F32", {}, data + 16, 4};
  EXPECT_EQ(directory->at("a"), a);
  EXPECT_EQ(directory->at("b"), b);
  EXPECT_EQ(directory->at("c").bytes, 0U);
}

TEST(Safetensors, RefusesAFileThatEndsAnywhere) {
  const std::vector<TestTensor> tensors = {{"first", "BF16", {3}, std::vector<std::byte>(6)},
                                           {"last", "F32", {2}, std::vector<std::byte>(8)}};
  const std::vector<std::byte> file = write_safetensors(tensors);
  ASSERT_TRUE(parse_safetensors(file).has_value());
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(parse_safetensors(std::span(file).first(size)).has_value()) << size;
  }
  expect_refused(std::span(file).first(file.size() - 1), {"\"last\"", "13 data bytes", "14"});
}

TEST(Safetensors, RefusesALengthThatLies) {
  std::vector<std::byte> file = raw_safetensors("{}", 16);
  std::uint64_t lie = 1000;
  std::memcpy(file.data(), &lie, sizeof(lie));
  expect_refused(file, {"1000", "truncated"});
  lie = kMaxSafetensorsHeaderBytes + 1;
  std::memcpy(file.data(), &lie, sizeof(lie));
  expect_refused(file, {"at most 104857600"});
}

TEST(Safetensors, RefusesOffsetsThatLie) {
  expect_header_refused("{\"w\":" + entry("BF16", "[64]", 0, 128) + "}",
                        {"\"w\"", "64 data bytes", "128"});
  expect_header_refused("{\"w\":" + entry("BF16", "[4]", 16, 8) + "}", {"\"w\"", "begin <= end"});
  expect_header_refused("{\"w\":" + entry("BF16", "[4]", 0, 10) + "}",
                        {"\"w\"", "8 bytes for BF16 [4]", "found 10"});
  expect_header_refused("{\"w\":" + entry("F64", "[4294967296, 4294967296, 8]", 0, 0) + "}",
                        {"\"w\"", "2^64"});
  expect_header_refused(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})",
                        {"\"w\"", "unsigned", "-1"});
  expect_header_refused(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", {"\"w\""});
  expect_header_refused(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", {"\"w\""});
}

TEST(Safetensors, RefusesTensorsThatOverlap) {
  expect_header_refused(
      "{\"a\":" + entry("BF16", "[8]", 0, 16) + ",\"b\":" + entry("BF16", "[8]", 8, 24) + "}",
      {"\"a\"", "\"b\"", "overlap"});
}

TEST(Safetensors, RefusesATensorThatComesTwice) {
  expect_header_refused(
      "{\"a\":" + entry("U8", "[1]", 0, 1) + ",\"a\":" + entry("U8", "[1]", 1, 2) + "}",
      {"\"a\"", "twice"});
}

TEST(Safetensors, RefusesFieldsOfTheWrongKind) {
  expect_header_refused("{\"w\":3}", {"\"w\"", "an object", "3"});
  expect_header_refused(R"({"w":{"shape":[1],"data_offsets":[0,1]}})", {"\"w\"", "dtype"});
  expect_header_refused(R"({"w":{"dtype":7,"shape":[1],"data_offsets":[0,1]}})",
                        {"\"w\"", "dtype", "7"});
  expect_header_refused(R"({"w":{"dtype":"Q4","shape":[1],"data_offsets":[0,1]}})",
                        {"\"w\"", "Q4"});
  expect_header_refused(R"({"w":{"dtype":"U8","data_offsets":[0,1]}})", {"\"w\"", "shape"});
  expect_header_refused(R"({"w":{"dtype":"U8","shape":"x","data_offsets":[0,1]}})",
                        {"\"w\"", "shape"});
  expect_header_refused(R"({"w":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})",
                        {"\"w\"", "1.5"});
  expect_header_refused(R"({"w":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})",
                        {"\"w\"", "at most 8"});
}

// Whether or not anything reads them.
TEST(Safetensors, KnowsTheSizeOfEachDtypeOfTheFormat) {
  const std::vector<std::pair<const char*, std::uint64_t>> bits = {
      {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E8M0", 8}, {"F8_E5M2", 8},
      {"F8_E4M3", 8}, {"BOOL", 8},    {"U8", 8},      {"I8", 8},      {"U16", 16},
      {"I16", 16},    {"F16", 16},    {"BF16", 16},   {"U32", 32},    {"I32", 32},
      {"F32", 32},    {"U64", 64},    {"I64", 64},    {"F64", 64},    {"C64", 64}};
  for (const auto& [dtype, size] : bits) {
    const std::string header = "{\"w\":" + entry(dtype, "[2,4]", 0, size) + "}";
    const auto directory = parse_safetensors(raw_safetensors(header, size));
    ASSERT_TRUE(directory.has_value()) << directory.error().to_string();
    EXPECT_EQ(directory->at("w").bytes, size) << dtype;
  }
  expect_header_refused("{\"w\":" + entry("F4", "[3]", 0, 1) + "}", {"\"w\"", "whole bytes", "12"});
}

TEST(Safetensors, RefusesAHeaderThatIsNoJsonObject) {
  expect_header_refused("", {"JSON"});
  expect_header_refused("[1]", {"an object", "an array"});
  expect_header_refused("{\"a\":", {"JSON"});
  expect_header_refused("{} x", {"JSON"});
  expect_header_refused(std::string(200, '[') + std::string(200, ']'), {"JSON"});
}

TEST(Safetensors, SurvivesTheCorpusOfTheFuzzer) {
  const std::string folder = std::string(PHALANX_SOURCE_DIR) + "/tests/fuzz/checkpoint/corpus";
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
}  // namespace phalanx::checkpoint
