// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/kv_layout.h"

#include <array>

#include "phalanx/base/check.h"

namespace phalanx::model {

using kernels::KvFormat;

namespace {

struct Choice {
  std::string_view text;
  KvFormat format;
};
constexpr std::array<Choice, 4> kChoices = {{{"bf16", KvFormat::kBf16},
                                             {"int8", KvFormat::kInt8},
                                             {"auto", KvFormat::kBf16},
                                             {"bfloat16", KvFormat::kBf16}}};

}  // namespace

std::vector<std::string> kv_format_choices() {
  std::vector<std::string> choices;
  for (const Choice& choice : kChoices) {
    choices.emplace_back(choice.text);
  }
  return choices;
}

KvFormat kv_format_of(std::string_view choice) {
  for (const Choice& known : kChoices) {
    if (known.text == choice) {
      return known.format;
    }
  }
  PHALANX_CHECK(false, "not one of kv_format_choices()");
  return KvFormat::kBf16;
}

std::string_view kv_format_name(KvFormat format) {
  return format == KvFormat::kInt8 ? "int8" : "bf16";
}

KvLayout kv_layout(const checkpoint::ModelConfig& config,
                   const Shard& shard,
                   const step::RankLimits& limits) {
  KvLayout layout;
  layout.format = limits.kv_format;
  layout.layers = config.layers;
  layout.blocks = limits.kv_blocks;
  layout.kv_heads = shard.attention.count;
  layout.head_stride = kernels::kv_tile(layout.format, config.head_dim).bytes;
  layout.layer_stride = layout.head_stride * layout.kv_heads;
  layout.block_stride = layout.layer_stride * layout.layers;
  return layout;
}

std::size_t kv_block_bytes(const checkpoint::ModelConfig& config,
                           const Shard& shard,
                           KvFormat format) {
  step::RankLimits limits;
  limits.kv_format = format;
  return kv_layout(config, shard, limits).block_stride;
}

}  // namespace phalanx::model
