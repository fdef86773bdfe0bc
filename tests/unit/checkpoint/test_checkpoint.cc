// SPDX-License-Identifier: Apache-2.0
#include "test_checkpoint.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <utility>

#include "phalanx/tensor/half.h"

namespace phalanx::checkpoint {
namespace {

class OwnedBytes final : public FileBytes {
 public:
  explicit OwnedBytes(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] std::span<const std::byte> bytes() const override { return bytes_; }
  void done_with(std::size_t, std::size_t) override {}

 private:
  std::vector<std::byte> bytes_;
};

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// Weights are bf16 numbers in every dtype, so that the dtype never changes the model.
void append(std::vector<std::byte>& out, float value, const std::string& dtype) {
  const float rounded = tensor::to_float(tensor::to_bf16(value));
  std::uint32_t bits = std::bit_cast<std::uint32_t>(rounded);
  std::size_t count = 4;
  if (dtype == "BF16") {
    bits >>= 16;
    count = 2;
  } else if (dtype == "F16") {
    bits = tensor::to_f16(rounded).bits;
    count = 2;
  }
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(static_cast<std::byte>((bits >> (8 * i)) & 0xFF));
  }
}

}  // namespace

void MemorySource::put(std::string name, std::string text) {
  files_[std::move(name)] = bytes_of(text);
}

void MemorySource::put(std::string name, std::vector<std::byte> bytes) {
  files_[std::move(name)] = std::move(bytes);
}

Result<std::unique_ptr<FileBytes>> MemorySource::open(const std::string& name) {
  const auto found = files_.find(name);
  if (found == files_.end()) {
    return not_found(describe(name) + ": no such file");
  }
  return std::unique_ptr<FileBytes>(std::make_unique<OwnedBytes>(found->second));
}

Result<std::unique_ptr<FileBytes>> FolderSource::open(const std::string& name) {
  std::ifstream file(describe(name), std::ios::binary);
  if (!file) {
    return not_found(describe(name) + ": no such file");
  }
  file.seekg(0, std::ios::end);
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return std::unique_ptr<FileBytes>(std::make_unique<OwnedBytes>(std::move(bytes)));
}

std::vector<std::byte> raw_safetensors(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t size = header.size();
  std::vector<std::byte> file(8 + header.size() + data_bytes);
  std::memcpy(file.data(), &size, 8);
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

std::vector<std::byte> write_safetensors(const std::vector<TestTensor>& tensors) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  std::size_t offset = 0;
  for (const TestTensor& tensor : tensors) {
    header += ",\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype +
              "\",\"shape\":" + shape_text(tensor.shape) + ",\"data_offsets\":[" +
              std::to_string(offset) + "," + std::to_string(offset + tensor.bytes.size()) + "]}";
    offset += tensor.bytes.size();
  }
  std::vector<std::byte> file = raw_safetensors(header + "}", 0);
  for (const TestTensor& tensor : tensors) {
    file.insert(file.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  return file;
}

std::string config_json(const TestShape& shape) {
  const auto number = [](const char* name, std::uint64_t value) {
    return std::string(",\"") + name + "\":" + std::to_string(value);
  };
  return "{\"model_type\":\"" + shape.model_type +
         "\",\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0" +
         (shape.attention_bias ? ",\"attention_bias\":true" : "") +
         (shape.mlp_bias ? ",\"mlp_bias\":true" : "") + number("num_hidden_layers", shape.layers) +
         number("hidden_size", shape.hidden) + number("num_attention_heads", shape.heads) +
         number("num_key_value_heads", shape.kv_heads) + number("head_dim", shape.head_dim) +
         number("intermediate_size", shape.intermediate) + number("vocab_size", shape.vocab) +
         number("max_position_embeddings", shape.max_position) +
         ",\"tie_word_embeddings\":" + (shape.tied ? "true" : "false") +
         ",\"rope_scaling\":" + shape.rope_scaling + ",\"eos_token_id\":[7,3]}";
}

std::vector<TestTensor> random_tensors(const TestShape& shape) {
  const auto config = parse_config(config_json(shape));
  std::mt19937_64 random(shape.seed);
  std::vector<TestTensor> tensors;
  for (const WeightSpec& spec : required_weights(config.value())) {
    TestTensor tensor;
    tensor.name = spec.name;
    tensor.dtype = shape.dtype;
    tensor.shape = spec.rows == 0 ? std::vector<std::uint64_t>{spec.columns}
                                  : std::vector<std::uint64_t>{spec.rows, spec.columns};
    const bool is_bias = spec.name.ends_with(".bias");
    const bool is_vector = spec.rows == 0;
    const bool is_table = spec.name == "model.embed_tokens.weight" || spec.name == "lm_head.weight";
    const double deviation = is_table ? 0.4 : 1.0 / std::sqrt(static_cast<double>(spec.columns));
    std::normal_distribution<double> normal(is_vector && !is_bias ? 1.0 : 0.0,
                                            is_bias     ? 0.5
                                            : is_vector ? 0.2
                                                        : deviation);
    for (std::uint64_t i = 0; i < (is_vector ? 1 : spec.rows) * spec.columns; ++i) {
      append(tensor.bytes, static_cast<float>(normal(random)), shape.dtype);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::unique_ptr<MemorySource> random_checkpoint(const TestShape& shape) {
  auto source = std::make_unique<MemorySource>();
  source->put("config.json", config_json(shape));
  source->put("model.safetensors", write_safetensors(random_tensors(shape)));
  return source;
}

}  // namespace phalanx::checkpoint
