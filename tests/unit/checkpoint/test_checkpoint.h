// SPDX-License-Identifier: Apache-2.0
// Small random checkpoints in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/checkpoint/file_source.h"

namespace phalanx::checkpoint {

// Files that live in memory.
class MemorySource final : public FileSource {
 public:
  void put(std::string name, std::string text);
  void put(std::string name, std::vector<std::byte> bytes);
  void remove(const std::string& name) { files_.erase(name); }
  [[nodiscard]] std::vector<std::byte>& bytes(const std::string& name) { return files_.at(name); }

  Result<std::unique_ptr<FileBytes>> open(const std::string& name) override;
  [[nodiscard]] bool has(const std::string& name) const override { return files_.contains(name); }
  [[nodiscard]] std::string describe(const std::string& name) const override {
    return "memory/" + name;
  }

 private:
  std::map<std::string, std::vector<std::byte>> files_;
};

// Files of a folder on disk, read into memory.
class FolderSource final : public FileSource {
 public:
  explicit FolderSource(std::string folder) : folder_(std::move(folder)) {}
  Result<std::unique_ptr<FileBytes>> open(const std::string& name) override;
  [[nodiscard]] bool has(const std::string& name) const override {
    return std::filesystem::exists(describe(name));
  }
  [[nodiscard]] std::string describe(const std::string& name) const override {
    return folder_ + "/" + name;
  }

 private:
  std::string folder_;
};

struct TestShape {
  std::string model_type = "qwen3";
  bool attention_bias = false;  // fields of config.json, left out when false
  bool mlp_bias = false;
  std::uint32_t layers = 2;
  std::uint32_t hidden = 64;
  std::uint32_t heads = 8;
  std::uint32_t kv_heads = 4;
  std::uint32_t head_dim = 32;
  std::uint32_t intermediate = 608;  // 19 blocks: runs of one and of two
  std::uint32_t vocab = 301;
  std::uint32_t max_position = 512;
  bool tied = true;
  std::string rope_scaling = "null";
  std::string dtype = "BF16";  // or F16, F32
  std::uint64_t seed = 1;
};

// One tensor of a safetensors file being written.
struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;
};

// The bytes of a safetensors file with these tensors in order.
[[nodiscard]] std::vector<std::byte> write_safetensors(const std::vector<TestTensor>& tensors);

// The length prefix and `header`, then `data_bytes` zeros.
[[nodiscard]] std::vector<std::byte> raw_safetensors(const std::string& header,
                                                     std::size_t data_bytes);

[[nodiscard]] std::string config_json(const TestShape& shape);
[[nodiscard]] std::vector<TestTensor> random_tensors(const TestShape& shape);

// config.json and model.safetensors.
[[nodiscard]] std::unique_ptr<MemorySource> random_checkpoint(const TestShape& shape);

}  // namespace phalanx::checkpoint
