// SPDX-License-Identifier: Apache-2.0
#include "engine_weights.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/model/weight_arena.h"
#include "phalanx/os/cpu_set.h"

namespace phalanx::bench {
namespace {

using checkpoint::FileBytes;
using checkpoint::WeightSpec;

constexpr std::uint64_t kOne = 0x3F80;  // 1 in bf16

std::string config_text(std::uint32_t layers) {
  return R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu",
    "attention_bias": false, "head_dim": 128, "hidden_size": 1024, "intermediate_size": 3072,
    "max_position_embeddings": 40960, "num_attention_heads": 16, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "vocab_size": 151936, "eos_token_id": 151645,
    "num_hidden_layers": )" +
         std::to_string(layers) + "}";
}

std::size_t bytes_of(const WeightSpec& spec) {
  return std::max<std::uint64_t>(spec.rows, 1) * spec.columns * sizeof(tensor::Bf16);
}

std::string safetensors_header(const std::vector<WeightSpec>& specs) {
  std::string text = "{";
  std::size_t offset = 0;
  for (const WeightSpec& spec : specs) {
    const std::string shape =
        (spec.rows == 0 ? "" : std::to_string(spec.rows) + ",") + std::to_string(spec.columns);
    const std::size_t end = offset + bytes_of(spec);
    text += (offset == 0 ? "\"" : ",\"") + spec.name + R"(":{"dtype":"BF16","shape":[)" + shape +
            R"(],"data_offsets":[)" + std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

void fill_ones(std::span<std::byte> to) {
  for (std::size_t at = 0; at < to.size(); at += sizeof(tensor::Bf16)) {
    std::memcpy(to.data() + at, &kOne, sizeof(tensor::Bf16));
  }
}

// Some bytes of a source that outlives it.
class BorrowedBytes final : public FileBytes {
 public:
  explicit BorrowedBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  [[nodiscard]] std::span<const std::byte> bytes() const override { return bytes_; }
  void done_with(std::size_t /*offset*/, std::size_t /*count*/) override {}

 private:
  std::span<const std::byte> bytes_;
};

class SyntheticModel final : public checkpoint::FileSource {
 public:
  SyntheticModel(std::string config, os::Mapping weights, std::size_t weight_bytes)
      : config_(std::move(config)), weights_(std::move(weights)), weight_bytes_(weight_bytes) {}

  [[nodiscard]] Result<std::unique_ptr<FileBytes>> open(const std::string& name) override {
    if (name == "config.json") {
      return bytes(std::as_bytes(std::span(config_)));
    }
    if (name == "model.safetensors") {
      return bytes(weights_.bytes().first(weight_bytes_));
    }
    return not_found(describe(name));
  }
  [[nodiscard]] bool has(const std::string& name) const override {
    return name == "config.json" || name == "model.safetensors";
  }
  [[nodiscard]] std::string describe(const std::string& name) const override {
    return "synthetic model: " + name;
  }

 private:
  static std::unique_ptr<FileBytes> bytes(std::span<const std::byte> bytes) {
    return std::make_unique<BorrowedBytes>(bytes);
  }

  std::string config_;
  os::Mapping weights_;
  std::size_t weight_bytes_;
};

}  // namespace

Result<os::Mapping> take_memory(const std::string& name, std::size_t bytes) {
  const std::size_t rounded =
      (bytes + os::kHugePageBytes - 1) / os::kHugePageBytes * os::kHugePageBytes;
  PHALANX_TRY(const os::Memfd memory, os::Memfd::reserve(name, rounded));
  PHALANX_RETURN_IF_ERROR(memory.back(0, rounded));
  return memory.map(os::Access::kReadWrite);
}

// Four numbers at a time by operations on integers: 1.2 GB are to be made in seconds.
void fill_random(std::span<std::byte> to, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  for (std::size_t at = 0; at + sizeof(state) <= to.size(); at += sizeof(state)) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const std::uint64_t bits = (state & 0x80FF'80FF'80FF'80FF) + 0x3B80'3B80'3B80'3B80 +
                               ((state >> 1) & 0x0080'0080'0080'0080);
    std::memcpy(to.data() + at, &bits, sizeof(bits));
  }
}

Result<std::unique_ptr<checkpoint::FileSource>> make_synthetic_model(std::uint32_t layers) {
  std::string text = config_text(layers);
  PHALANX_TRY(const checkpoint::ModelConfig config, checkpoint::parse_config(text));
  const std::vector<WeightSpec> specs = checkpoint::required_weights(config);
  const std::string header = safetensors_header(specs);
  const std::uint64_t header_bytes = header.size();
  std::size_t total = sizeof(header_bytes) + header.size();
  for (const WeightSpec& spec : specs) {
    total += bytes_of(spec);
  }
  PHALANX_TRY(os::Mapping weights, take_memory("synthetic weights", total));
  std::memcpy(weights.data(), &header_bytes, sizeof(header_bytes));
  std::memcpy(weights.data() + sizeof(header_bytes), header.data(), header.size());
  std::size_t at = sizeof(header_bytes) + header.size();
  for (const WeightSpec& spec : specs) {
    const std::span<std::byte> to = weights.bytes().subspan(at, bytes_of(spec));
    if (spec.rows == 0) {
      fill_ones(to);
    } else {
      fill_random(to, at);
    }
    at += to.size();
  }
  return std::unique_ptr<checkpoint::FileSource>(
      std::make_unique<SyntheticModel>(std::move(text), std::move(weights), total));
}

Result<Arena> make_arena(const checkpoint::Checkpoint& checkpoint,
                         const std::string& quantization,
                         std::uint32_t ranks) {
  Arena arena;
  arena.config = checkpoint.config();
  arena.config.formats = checkpoint.formats_for(quantization);
  const std::size_t bytes = model::layout_of(arena.config).bytes;
  PHALANX_TRY(arena.memory, take_memory("weights", bytes));
  PHALANX_CHECK(arena.memory.size() == bytes, "an arena is whole huge pages");
  model::FillOptions options;
  options.threads = static_cast<std::uint32_t>(os::allowed_cpus().size());
  options.ranks = ranks;
  PHALANX_TRY(const std::uint64_t fingerprint,
              model::fill_arena(checkpoint, arena.config, arena.memory.bytes(), options));
  static_cast<void>(fingerprint);
  return arena;
}

}  // namespace phalanx::bench
