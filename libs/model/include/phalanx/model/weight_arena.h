// SPDX-License-Identifier: Apache-2.0
// The weights as the ranks read them: one block of memory, packed per unit of sharding, so that one
// arena serves every replica. It can be read by any number of ranks, and fastest by those that it
// is laid out for. A loader process fills it once; it is sealed and mapped read-only from then on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/checkpoint/config.h"
#include "phalanx/kernels/weight.h"
#include "phalanx/model/shard_plan.h"

namespace phalanx::model {

inline constexpr std::size_t kArenaAlignment = std::size_t{2} << 20;  // of the mapping and the size
inline constexpr std::uint32_t kArenaVersion = 6;  // of the layout; a change makes arenas distinct

// Where a layer's weights begin. Matrices are packed (kernels/weight.h) in the formats that
// ModelConfig::formats has for them; gains and biases are fp32.
// What the model does not have takes no room and begins at 0.
//
//   q, k, v, gate, up  packed over all output columns: a rank reads its run of strips
//   o, down            for each rank, and of it for each 64 of the hidden outputs, a packed matrix
//                      of these for each leaf that the rank has: of heads_per_group · head_dim
//                      inputs per KV head, of 32 · blocks per MLP run
//   biases             over all output columns of their product
struct LayerOffsets {
  std::size_t attention_gain = 0;
  std::size_t q = 0;
  std::size_t k = 0;
  std::size_t v = 0;
  std::size_t q_gain = 0;
  std::size_t k_gain = 0;
  std::size_t o = 0;
  std::size_t mlp_gain = 0;
  std::size_t gate = 0;
  std::size_t up = 0;
  std::size_t down = 0;
  std::size_t q_bias = 0;
  std::size_t k_bias = 0;
  std::size_t v_bias = 0;
  std::size_t o_bias = 0;
  std::size_t gate_bias = 0;
  std::size_t up_bias = 0;
  std::size_t down_bias = 0;
};

// Computed from the configuration alone, so that the size is known before anything is read. The
// ranks change neither the size nor any offset, only the places of leaves behind `o` and `down`.
struct ArenaLayout {
  std::uint32_t ranks = 1;    // that `o` and `down` are laid out for
  std::size_t bytes = 0;      // multiple of kArenaAlignment
  std::size_t embedding = 0;  // packed as the head is
  std::size_t head = 0;       // equal to `embedding` when they are tied
  std::size_t final_gain = 0;
  std::vector<LayerOffsets> layers;
};
[[nodiscard]] ArenaLayout layout_of(const checkpoint::ModelConfig& config, std::uint32_t ranks = 1);

// Names the contents that an arena of `config` and `structure_hash` must have: checkpoint, weight
// format, arithmetic version and layout.
[[nodiscard]] std::uint64_t arena_key(const checkpoint::ModelConfig& config,
                                      std::uint32_t ranks,
                                      std::uint64_t structure_hash);

struct FillOptions {
  std::uint32_t threads = 1;
  std::uint32_t ranks = 1;  // that will read it
  // Called on the calling thread from time to time, and when all is packed with done == total.
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress;
};

// Packs every weight of `checkpoint` into `memory`, which is zeroed and of layout_of(config).bytes,
// and writes the header last. `config` is that of the checkpoint with the formats to pack in.
// Blocks of a GGUF file that the format can hold as they are keep their codes and scales;
// everything else is rounded to bf16 first. Returns the fingerprint of the packed weights.
//
// Blocks: yes, for as long as reading and packing take.
// Errors: kInvalidArgument     memory of another size or misaligned; more ranks than the model can
//                              be split into
//         kFailedPrecondition  `config` is of another model: the files have changed
//         kDataLoss            a weight that the format cannot hold: infinite or NaN (which)
[[nodiscard]] Result<std::uint64_t> fill_arena(const checkpoint::Checkpoint& checkpoint,
                                               const checkpoint::ModelConfig& config,
                                               std::span<std::byte> memory,
                                               const FillOptions& options);

// A filled arena, checked.
// Ownership: borrows the memory.
struct WeightArena {
  std::span<const std::byte> memory;
  ArenaLayout layout;
  std::uint64_t key = 0;
  std::uint64_t content_hash = 0;  // of the packed weights
};

// For a reader that has the configuration but not the weight files: the key is that of the header.
//
// Errors: kFailedPrecondition  not an arena, not completely filled, of another version or of
//                              another configuration
//         kDataLoss            of another size than its configuration asks, or for ranks that it
//                              does not have
[[nodiscard]] Result<WeightArena> open_arena(std::span<const std::byte> memory,
                                             const checkpoint::ModelConfig& config);

}  // namespace phalanx::model
