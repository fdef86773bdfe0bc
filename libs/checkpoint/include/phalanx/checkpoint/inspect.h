// SPDX-License-Identifier: Apache-2.0
// What a model on disk is, without starting anything. What it needs: phalanx/model/needs.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/checkpoint/config.h"

namespace phalanx::checkpoint {

struct TypeUse {
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
};

// What keeps a model from being served as asked.
struct Obstacle {
  // "model", "tokenizer", "chat template", "tool_use template", "topology", "memory", "limits"
  std::string part;
  Error error;
};

struct Inspection {
  std::string path;
  std::string format;  // "GGUF 3", "Hugging Face"
  std::uint32_t weight_files = 0;
  std::string architecture;  // as the file spells it
  std::string name;          // as the file says; empty: it does not
  std::uint64_t parameters = 0;
  std::uint64_t weight_bytes = 0;
  std::map<std::string, TypeUse> types;         // by name: "Q4_K", "BF16"
  std::optional<std::uint64_t> context_length;  // tokens
  std::string tokenizer;                        // "BPE, 49152 tokens", as the file calls it
  bool has_chat_template = false;
  std::optional<ModelConfig> config;  // absent when the model is not supported
  UnusedTensors unused;
  std::vector<std::string> warnings;  // what is served otherwise than it may be thought to be
  std::vector<Obstacle> obstacles;    // empty: it can be served
};

// Reads everything but the values of the weights. What is merely unsupported becomes an obstacle.
//
// Errors: kNotFound, kInvalidArgument, kDataLoss  there is no model at `path`, or nothing about it
//                                                 can be read
[[nodiscard]] Result<Inspection> inspect(const std::string& path,
                                         const std::string& quantization = "auto");

}  // namespace phalanx::checkpoint
