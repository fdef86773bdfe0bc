// SPDX-License-Identifier: Apache-2.0
// The configuration of a GGUF model, from its metadata and from the tensors that it has: biases, a
// head of its own and rope divisors have no key. Facts: the key names of the GGUF specification and
// the tensors that llama.cpp reads for the architectures qwen3, qwen2 and llama.
#pragma once

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/config.h"

#include "gguf_model.h"

namespace phalanx::checkpoint {

// Errors: kNotFound         a key or tensor that the configuration needs is missing
//         kInvalidArgument  a key of the wrong type or out of range
//         kUnimplemented    an architecture, rope scaling or variant that is not supported; the
//                           message names what is
// Each message names the file and the key or tensor.
[[nodiscard]] Result<ModelConfig> read_gguf_config(const GgufModel& model);

// general.sampling.*, where the file has them.
[[nodiscard]] Result<GenerationDefaults> read_gguf_generation(const GgufModel& model,
                                                              const ModelConfig& config);

}  // namespace phalanx::checkpoint
