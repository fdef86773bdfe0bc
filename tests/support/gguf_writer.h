// SPDX-License-Identifier: Apache-2.0
// Writes GGUF files in memory, right ones and, where a test says so, wrong ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx::test {

class GgufWriter {
 public:
  explicit GgufWriter(std::uint32_t version = 3) : version_(version) {}

  GgufWriter& text(std::string_view key, std::string_view value) {
    return value_of(key, kString).string(values_, value);
  }
  GgufWriter& u32(std::string_view key, std::uint32_t value) {
    return value_of(key, kUint32).number(values_, value);
  }
  GgufWriter& f32(std::string_view key, float value) {
    return value_of(key, kFloat32).number(values_, value);
  }
  GgufWriter& boolean(std::string_view key, std::uint8_t value) {
    return value_of(key, kBool).number(values_, value);
  }
  GgufWriter& texts(std::string_view key, const std::vector<std::string>& values) {
    array_of(key, kString, values.size());
    for (const std::string& value : values) {
      string(values_, value);
    }
    return *this;
  }
  GgufWriter& floats(std::string_view key, const std::vector<float>& values) {
    array_of(key, kFloat32, values.size());
    for (const float value : values) {
      number(values_, value);
    }
    return *this;
  }
  GgufWriter& integers(std::string_view key, const std::vector<std::int32_t>& values) {
    array_of(key, kInt32, values.size());
    for (const std::int32_t value : values) {
      number(values_, value);
    }
    return *this;
  }
  // A value of any type whose bytes are as given.
  GgufWriter& raw(std::string_view key, std::uint32_t type, std::span<const std::byte> bytes) {
    value_of(key, type);
    values_.insert(values_.end(), bytes.begin(), bytes.end());
    return *this;
  }

  // `shape` slowest first. The data follows that of the tensor before, aligned.
  GgufWriter& tensor(std::string_view name,
                     std::uint32_t type,
                     const std::vector<std::uint64_t>& shape,
                     const std::vector<std::byte>& bytes) {
    align(data_, alignment_);
    tensor_at(name, type, shape, data_.size());
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  // Only the entry, with any offset.
  GgufWriter& tensor_at(std::string_view name,
                        std::uint32_t type,
                        const std::vector<std::uint64_t>& shape,
                        std::uint64_t offset) {
    string(tensors_, name).number(tensors_, static_cast<std::uint32_t>(shape.size()));
    for (std::size_t i = shape.size(); i > 0; --i) {
      number(tensors_, shape[i - 1]);
    }
    number(tensors_, type).number(tensors_, offset);
    ++tensor_count_;
    return *this;
  }

  GgufWriter& alignment(std::uint32_t bytes) {
    alignment_ = bytes;
    return u32("general.alignment", bytes);
  }

  // Counts that lie.
  GgufWriter& claim_keys(std::uint64_t count) {
    key_count_ = count;
    return *this;
  }
  GgufWriter& claim_tensors(std::uint64_t count) {
    tensor_count_ = count;
    return *this;
  }

  [[nodiscard]] std::vector<std::byte> finish() {
    std::vector<std::byte> file;
    for (const char c : std::string_view("GGUF")) {
      file.push_back(static_cast<std::byte>(c));
    }
    number(file, version_).number(file, tensor_count_).number(file, key_count_);
    file.insert(file.end(), values_.begin(), values_.end());
    file.insert(file.end(), tensors_.begin(), tensors_.end());
    align(file, alignment_);
    file.insert(file.end(), data_.begin(), data_.end());
    return file;
  }

 private:
  static constexpr std::uint32_t kUint32 = 4;
  static constexpr std::uint32_t kInt32 = 5;
  static constexpr std::uint32_t kFloat32 = 6;
  static constexpr std::uint32_t kBool = 7;
  static constexpr std::uint32_t kString = 8;
  static constexpr std::uint32_t kArray = 9;

  GgufWriter& value_of(std::string_view key, std::uint32_t type) {
    ++key_count_;
    return string(values_, key).number(values_, type);
  }
  GgufWriter& array_of(std::string_view key, std::uint32_t element, std::uint64_t count) {
    return value_of(key, kArray).number(values_, element).number(values_, count);
  }
  template <typename T>
  GgufWriter& number(std::vector<std::byte>& out, T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out.insert(out.end(), bytes.begin(), bytes.end());
    return *this;
  }
  GgufWriter& string(std::vector<std::byte>& out, std::string_view text) {
    number(out, static_cast<std::uint64_t>(text.size()));
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    out.insert(out.end(), bytes.begin(), bytes.end());
    return *this;
  }
  static void align(std::vector<std::byte>& out, std::size_t to) {
    out.resize((out.size() + to - 1) / to * to);
  }

  std::uint32_t version_;
  std::uint32_t alignment_ = 32;
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::vector<std::byte> values_;
  std::vector<std::byte> tensors_;
  std::vector<std::byte> data_;
};

}  // namespace phalanx::test
