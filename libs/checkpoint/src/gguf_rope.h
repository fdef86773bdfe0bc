// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/config.h"

#include "gguf_keys.h"
#include "gguf_model.h"

namespace phalanx::checkpoint {

// Fills config.rope, and max_position as finish_rope(); head_dim and max_position are known.
// rope_freqs.weight holds the divisors of Llama 3 files.
// Errors: kInvalidArgument, kUnimplemented, kDataLoss as read_gguf_config
Status read_gguf_rope(const GgufKeys& keys, const GgufModel& model, ModelConfig& config);

}  // namespace phalanx::checkpoint
