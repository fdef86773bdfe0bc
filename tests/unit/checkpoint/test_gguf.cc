// SPDX-License-Identifier: Apache-2.0
#include "test_gguf.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "phalanx/tensor/half.h"

namespace phalanx::checkpoint {
namespace {

std::string gguf_name(std::string name) {
  static const std::vector<std::pair<std::string, std::string>> kParts = {
      {"model.layers.", "blk."},
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
  };
  for (const auto& [from, to] : kParts) {
    if (const std::size_t at = name.find(from); at != std::string::npos) {
      name.replace(at, from.size(), to);
    }
  }
  return name;
}

std::uint32_t type_number(const std::string& dtype) {
  static const std::map<std::string, std::uint32_t> kNumbers = {
      {"F32", 0}, {"F16", 1}, {"BF16", 30}};
  return kNumbers.at(dtype);
}

// Rows 0 … d/2 − 1 of each head go to the even places, the others between them.
std::vector<std::byte> interleave(const TestTensor& tensor, std::uint32_t head_dim) {
  const std::size_t row_bytes = tensor.bytes.size() / tensor.shape.front();
  std::vector<std::byte> out;
  for (std::size_t head = 0; head < tensor.shape.front() / head_dim; ++head) {
    for (std::size_t pair = 0; pair < head_dim / 2; ++pair) {
      for (const std::size_t half : {std::size_t{0}, std::size_t{head_dim / 2}}) {
        const std::byte* row = tensor.bytes.data() + (head * head_dim + half + pair) * row_bytes;
        out.insert(out.end(), row, row + row_bytes);
      }
    }
  }
  return out;
}

// An f16 number of a block: where it lies, and what makes numbers of about a tenth.
struct HalfPlace {
  std::size_t offset;
  float value;
};

// The scale comes first.
std::vector<HalfPlace> half_places(gguf::TensorType type) {
  switch (type) {
    case gguf::TensorType::kQ8_0:
      return {{0, 0.001F}};
    case gguf::TensorType::kQ4_0:
      return {{0, 0.02F}};
    case gguf::TensorType::kQ4_1:
      return {{0, 0.02F}, {2, -0.15F}};
    case gguf::TensorType::kQ5_0:
      return {{0, 0.01F}};
    case gguf::TensorType::kQ5_1:
      return {{0, 0.01F}, {2, -0.16F}};
    case gguf::TensorType::kQ2_K:
      return {{80, 0.01F}, {82, 0.015F}};
    case gguf::TensorType::kQ3_K:
      return {{108, 0.003F}};
    case gguf::TensorType::kQ4_K:
      return {{0, 0.0006F}, {2, 0.0045F}};
    case gguf::TensorType::kQ5_K:
      return {{0, 0.0003F}, {2, 0.0047F}};
    case gguf::TensorType::kIQ1_S:
      return {{0, 0.016F}};
    case gguf::TensorType::kIQ2_XXS:
    case gguf::TensorType::kIQ2_XS:
    case gguf::TensorType::kIQ2_S:
      return {{0, 0.002F}};
    case gguf::TensorType::kIQ3_XXS:
    case gguf::TensorType::kIQ3_S:
      return {{0, 0.0008F}};
    case gguf::TensorType::kIQ4_NL:
      return {{0, 0.0015F}};
    case gguf::TensorType::kIQ4_XS:
      return {{0, 0.00008F}};
    case gguf::TensorType::kQ1_0:
      return {{0, 0.1F}};
    case gguf::TensorType::kQ2_0:
      return {{0, 0.07F}};
    case gguf::TensorType::kTQ1_0:
      return {{52, 0.1F}};
    case gguf::TensorType::kTQ2_0:
      return {{64, 0.07F}};
    case gguf::TensorType::kIQ1_M:  // four nibbles apart
    case gguf::TensorType::kMXFP4:
    case gguf::TensorType::kNVFP4:
      return {};
    default:
      return {{208, 0.00008F}};  // Q6_K
  }
}

// The f16 scale of a block of IQ1_M: a nibble at the top of each of the last four words.
void put_nibbles(std::uint16_t half, std::span<std::byte> block) {
  for (std::size_t i = 0; i < 4; ++i) {
    std::byte& top = block[49 + 2 * i];
    top = (top & std::byte{15}) | static_cast<std::byte>((half >> (4 * i) & 15) << 4);
  }
}

}  // namespace

std::vector<GgufTensor> gguf_tensors(const TestShape& shape) {
  std::vector<GgufTensor> tensors;
  for (const TestTensor& tensor : random_tensors(shape)) {
    const bool rotated = tensor.name.find("q_proj") != std::string::npos ||
                         tensor.name.find("k_proj") != std::string::npos;
    tensors.push_back({gguf_name(tensor.name),
                       type_number(tensor.dtype),
                       tensor.shape,
                       rotated && shape.model_type == "llama" ? interleave(tensor, shape.head_dim)
                                                              : tensor.bytes});
  }
  return tensors;
}

void write_keys(const TestShape& shape,
                test::GgufWriter& writer,
                const std::vector<std::int32_t>& kv_heads_by_layer) {
  const std::string arch = shape.model_type + ".";
  writer.text("general.architecture", shape.model_type);
  writer.u32(arch + "block_count", shape.layers).u32(arch + "embedding_length", shape.hidden);
  writer.u32(arch + "attention.head_count", shape.heads);
  if (kv_heads_by_layer.empty()) {
    writer.u32(arch + "attention.head_count_kv", shape.kv_heads);
  } else {
    writer.integers(arch + "attention.head_count_kv", kv_heads_by_layer);
  }
  writer.u32(arch + "attention.key_length", shape.head_dim);
  writer.u32(arch + "feed_forward_length", shape.intermediate);
  writer.u32(arch + "context_length", shape.max_position);
  writer.f32(arch + "attention.layer_norm_rms_epsilon", 1e-6F);
  writer.f32(arch + "rope.freq_base", 10000.0F);
  writer.u32("tokenizer.ggml.eos_token_id", 7).u32("tokenizer.ggml.eot_token_id", 3);
}

std::unique_ptr<GgufSource> gguf_checkpoint(const TestShape& shape,
                                            const std::function<void(GgufParts&)>& change) {
  GgufParts parts;
  write_keys(shape, parts.writer);
  parts.tensors = gguf_tensors(shape);
  if (change) {
    change(parts);
  }
  for (const GgufTensor& tensor : parts.tensors) {
    parts.writer.tensor(tensor.name, tensor.type, tensor.shape, tensor.bytes);
  }
  auto source = std::make_unique<GgufSource>("model.gguf");
  source->files().put("model.gguf", parts.writer.finish());
  return source;
}

std::vector<std::byte> random_blocks(gguf::TensorType type,
                                     std::size_t elements,
                                     std::uint64_t seed) {
  const gguf::TypeTraits& traits = gguf::traits_of(type);
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(elements / traits.block_elements * traits.block_bytes);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random() & 255U); });
  for (std::size_t block = 0; block < bytes.size(); block += traits.block_bytes) {
    if (type == gguf::TensorType::kMXFP4) {
      bytes[block] = static_cast<std::byte>(122 - block % 3);
    }
    if (type == gguf::TensorType::kNVFP4) {
      for (std::size_t i = 0; i < 4; ++i) {
        bytes[block + i] = static_cast<std::byte>(16 + (block + 3 * i) % 11);
      }
    }
    const auto half_near = [block](float value) {
      return tensor::to_f16(value * (1.0F + 0.1F * static_cast<float>(block % 7)));
    };
    if (type == gguf::TensorType::kIQ1_M) {
      put_nibbles(half_near(0.016F).bits, std::span(bytes).subspan(block, traits.block_bytes));
    }
    for (const HalfPlace& place : half_places(type)) {
      const tensor::F16 half = half_near(place.value);
      std::memcpy(&bytes[block + place.offset], &half, sizeof(half));
    }
  }
  return bytes;
}

void spoil_scale(gguf::TensorType type, std::span<std::byte> block) {
  if (type == gguf::TensorType::kMXFP4) {
    block[0] = std::byte{255};
    return;
  }
  if (type == gguf::TensorType::kNVFP4) {
    block[0] = std::byte{127};
    return;
  }
  const std::uint16_t infinity = 0x7C00;
  if (type == gguf::TensorType::kIQ1_M) {
    put_nibbles(infinity, block);
    return;
  }
  std::memcpy(&block[half_places(type).front().offset], &infinity, sizeof(infinity));
}

void make_blocks(GgufParts& parts, const std::function<gguf::TensorType(std::size_t i)>& type_of) {
  for (std::size_t i = 0; i < parts.tensors.size(); ++i) {
    GgufTensor& tensor = parts.tensors[i];
    if (tensor.shape.size() == 2) {
      const gguf::TensorType type = type_of(i);
      tensor.type = static_cast<std::uint32_t>(type);
      tensor.bytes = random_blocks(type, tensor.shape[0] * tensor.shape[1], i + 1);
    }
  }
}

}  // namespace phalanx::checkpoint
