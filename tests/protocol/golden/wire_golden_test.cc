// SPDX-License-Identifier: Apache-2.0
// The bytes of the present version of the protocol. A test that fails here means that a peer of
// another build would misread a frame: raise kProtocolVersion and add a folder, do not edit the old
// one. With PHALANX_UPDATE_GOLDEN=1 in the environment the files are written instead of compared.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <msgpack.hpp>

#include "golden_messages.h"
#include "source_dir.h"

namespace phalanx::wire {
namespace {

const std::string kFolder = std::string(PHALANX_SOURCE_DIR) + "/proto/golden/v15/";

std::vector<Golden> all_goldens() {
  std::vector<Golden> all;
  for (auto&& part : {golden_leader_frames(),
                      golden_replica_frames(),
                      golden_rank_frames(),
                      golden_control_records(),
                      golden_records_to_front(),
                      golden_records_of_front(),
                      golden_admin_frames(),
                      golden_dumps()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A frame as people read it: blobs as 32-bit words, one element of the outer arrays a line.
class Notation : public msgpack::null_visitor {
 public:
  bool visit_nil() { return put("nil"); }
  bool visit_boolean(bool value) { return put(value ? "true" : "false"); }
  bool visit_positive_integer(std::uint64_t value) { return put(std::to_string(value)); }
  bool visit_negative_integer(std::int64_t value) { return put(std::to_string(value)); }
  bool visit_float32(float value) {
    std::ostringstream text;
    text << "f" << value;
    return put(text.str());
  }
  bool visit_str(const char* bytes, std::uint32_t size) {
    return put('"' + std::string(bytes, size) + '"');
  }
  bool visit_bin(const char* bytes, std::uint32_t size) {
    std::ostringstream text;
    for (std::uint32_t i = 0; i + 4 <= size; i += 4) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes + i, 4);
      text << (i == 0 ? "" : " ") << "0x" << std::hex << word;
    }
    return put("<" + text.str() + ">");
  }
  bool start_array(std::uint32_t /*elements*/) {
    put("[");
    ++depth_;
    return true;
  }
  bool end_array() {
    --depth_;
    return put("]");
  }
  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  bool put(const std::string& part) {
    text_ << std::string(depth_ * 2, ' ') << part << '\n';
    return true;
  }
  std::ostringstream text_;
  std::size_t depth_ = 0;
};

std::string notation(const std::string& bytes) {
  Notation visitor;
  std::size_t offset = 0;
  msgpack::parse(bytes.data(), bytes.size(), offset, visitor);
  return visitor.text();
}

TEST(WireGolden, EncodesAndDecodesTheBytesOfThisVersion) {
  const bool update = std::getenv("PHALANX_UPDATE_GOLDEN") != nullptr;
  for (const Golden& golden : all_goldens()) {
    const std::string path = kFolder + golden.name;
    if (update) {
      std::ofstream(path + ".bin", std::ios::binary) << golden.bytes;
      std::ofstream(path + ".txt") << notation(golden.bytes);
    }
    const std::string bytes = read(path + ".bin");
    ASSERT_FALSE(bytes.empty()) << path << ".bin is missing";
    EXPECT_EQ(golden.bytes, bytes) << golden.name << " is encoded differently:\n"
                                   << notation(golden.bytes);
    EXPECT_TRUE(golden.decodes(bytes)) << golden.name;
    EXPECT_EQ(read(path + ".txt"), notation(bytes)) << golden.name << ".txt";
  }
}

TEST(WireGolden, HasNoFileWithoutAMessage) {
  std::set<std::string> names;
  for (const Golden& golden : all_goldens()) {
    EXPECT_TRUE(names.insert(golden.name).second) << golden.name << " twice";
  }
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    EXPECT_TRUE(names.count(entry.path().stem())) << entry.path();
  }
}

TEST(WireGolden, IsRefusedWhenCutAnywhere) {
  for (const Golden& golden : all_goldens()) {
    for (std::size_t size = 0; size < golden.bytes.size(); ++size) {
      EXPECT_FALSE(golden.decodes(golden.bytes.substr(0, size))) << golden.name << " at " << size;
    }
  }
}

TEST(WireGolden, IsRefusedByTheOtherDecoders) {
  for (const Golden& golden : golden_leader_frames()) {
    EXPECT_FALSE(decode_rank_command(golden.bytes)) << golden.name;
    EXPECT_FALSE(decode_control_record(golden.bytes)) << golden.name;
  }
  for (const Golden& golden : golden_rank_frames()) {
    EXPECT_FALSE(decode_leader_frame(golden.bytes)) << golden.name;
    EXPECT_FALSE(decode_replica_frame(golden.bytes)) << golden.name;
  }
}

// The three kinds of records that go over one socket.
TEST(WireGolden, TellsTheRecordsOfAStartFromThoseOfAFront) {
  for (const Golden& golden : golden_control_records()) {
    EXPECT_FALSE(decode_leader_to_front(golden.bytes)) << golden.name;
    EXPECT_FALSE(decode_front_to_leader(golden.bytes)) << golden.name;
  }
  for (const Golden& golden : golden_records_to_front()) {
    EXPECT_FALSE(decode_control_record(golden.bytes)) << golden.name;
    EXPECT_FALSE(decode_front_to_leader(golden.bytes)) << golden.name;
  }
  for (const Golden& golden : golden_records_of_front()) {
    EXPECT_FALSE(decode_control_record(golden.bytes)) << golden.name;
    EXPECT_FALSE(decode_leader_to_front(golden.bytes)) << golden.name;
  }
}

}  // namespace
}  // namespace phalanx::wire
