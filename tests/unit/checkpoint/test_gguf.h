// SPDX-License-Identifier: Apache-2.0
// The random checkpoints of test_checkpoint.h as GGUF files.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/gguf_writer.h"
#include "test_checkpoint.h"

namespace phalanx::checkpoint {

// One GGUF file in memory under any name, with the files of its split beside it.
class GgufSource final : public FileSource {
 public:
  explicit GgufSource(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] MemorySource& files() { return files_; }

  Result<std::unique_ptr<FileBytes>> open(const std::string& name) override {
    return files_.open(name);
  }
  [[nodiscard]] bool has(const std::string& name) const override { return files_.has(name); }
  [[nodiscard]] std::string gguf_name() const override { return name_; }
  [[nodiscard]] std::string describe(const std::string& name) const override { return name; }

 private:
  std::string name_;
  MemorySource files_;
};

struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;
};

// random_tensors(shape) under the names of GGUF, in the order that llama.cpp's converter gives the
// rows of queries and keys.
[[nodiscard]] std::vector<GgufTensor> gguf_tensors(const TestShape& shape);

// The keys that describe `shape`, those that may differ from layer to layer as one number or as
// these numbers.
void write_keys(const TestShape& shape,
                test::GgufWriter& writer,
                const std::vector<std::int32_t>& kv_heads_by_layer = {});

// Both, after `change` had its way with them.
struct GgufParts {
  test::GgufWriter writer;
  std::vector<GgufTensor> tensors;
};
[[nodiscard]] std::unique_ptr<GgufSource> gguf_checkpoint(
    const TestShape& shape, const std::function<void(GgufParts&)>& change = {});

// Blocks of a type with codes, of random codes and scales: numbers of about a tenth, around 0.
[[nodiscard]] std::vector<std::byte> random_blocks(gguf::TensorType type,
                                                   std::size_t elements,
                                                   std::uint64_t seed);

// Makes the scale of a block one that is no number.
void spoil_scale(gguf::TensorType type, std::span<std::byte> block);

// Makes every matrix one of random blocks; `type_of` gives the type of tensor i.
void make_blocks(GgufParts& parts, const std::function<gguf::TensorType(std::size_t i)>& type_of);

}  // namespace phalanx::checkpoint
