// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/checkpoint/config.h"
#include "phalanx/checkpoint/file_source.h"
#include "phalanx/os/memfd.h"

namespace phalanx::bench {

// Memory as ranks have it: shared, in huge pages where there are any, all of it there and mapped.
//
// Errors: those of os::Memfd
[[nodiscard]] Result<os::Mapping> take_memory(const std::string& name, std::size_t bytes);

// Fills `to` with finite bf16 numbers of either sign, 0.004 to 0.03 in size.
void fill_random(std::span<std::byte> to, std::uint64_t seed);

// A Hugging Face folder that exists in memory only: the shape of Qwen3-0.6B with `layers` layers
// (28 make it whole), random weights, gains of 1, no tokenizer.
//
// Errors: those of take_memory() and of checkpoint::parse_config()
[[nodiscard]] Result<std::unique_ptr<checkpoint::FileSource>> make_synthetic_model(
    std::uint32_t layers);

// Weights packed by the filler that the loader of a server uses.
struct Arena {
  checkpoint::ModelConfig config;
  os::Mapping memory;
};

// Packed as --quantization `quantization` of a server with --tp `ranks` would be.
//
// Errors: those of take_memory() and model::fill_arena()
[[nodiscard]] Result<Arena> make_arena(const checkpoint::Checkpoint& checkpoint,
                                       const std::string& quantization,
                                       std::uint32_t ranks);

}  // namespace phalanx::bench
