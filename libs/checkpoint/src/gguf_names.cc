// SPDX-License-Identifier: Apache-2.0
#include "gguf_names.h"

#include <array>
#include <utility>

#include "phalanx/base/check.h"

namespace phalanx::checkpoint {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr std::array<Pair, 3> kOuter = {{
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
}};
constexpr std::array<Pair, 11> kLayer = {{
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
}};
constexpr std::string_view kLayerPrefix = "model.layers.";

template <std::size_t N>
std::string_view translate(const std::array<Pair, N>& table, std::string_view part) {
  for (const Pair& pair : table) {
    if (pair.first == part) {
      return pair.second;
    }
  }
  PHALANX_CHECK(false, "a weight that GGUF has no name for");
  return {};
}

}  // namespace

std::string gguf_name_of(std::string_view weight) {
  const std::size_t dot = weight.rfind('.');
  const std::string_view kind = weight.substr(dot);  // ".weight" or ".bias"
  const std::string_view part = weight.substr(0, dot);
  if (!part.starts_with(kLayerPrefix)) {
    return std::string(translate(kOuter, part)) + std::string(kind);
  }
  const std::string_view numbered = part.substr(kLayerPrefix.size());
  const std::size_t end = numbered.find('.');
  return "blk." + std::string(numbered.substr(0, end)) + "." +
         std::string(translate(kLayer, numbered.substr(end + 1))) + std::string(kind);
}

}  // namespace phalanx::checkpoint
