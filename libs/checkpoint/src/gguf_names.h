// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace phalanx::checkpoint {

// What GGUF files call a weight of required_weights():
// "model.layers.3.self_attn.q_proj.weight" → "blk.3.attn_q.weight".
[[nodiscard]] std::string gguf_name_of(std::string_view weight);

}  // namespace phalanx::checkpoint
