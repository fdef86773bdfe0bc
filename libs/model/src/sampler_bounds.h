// SPDX-License-Identifier: Apache-2.0
// Bounds that spare passes over the vocabulary the tokens that cannot matter. Leaving these out
// changes no token and no sum: whatever is found above a bound is found with all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/kernels/kernel_table.h"
#include "phalanx/kernels/vocab.h"

namespace phalanx::model {

// The k-th largest logit of the slice is no smaller than this: −inf where nothing is known. NaNs
// are passed over. k ≥ 1.
[[nodiscard]] float floor_of_kth(const kernels::KernelTable& kernels,
                                 const kernels::VocabSlice& slice,
                                 std::uint32_t k);

// Keeps of what is kept the tokens that are not below `floor`.
[[nodiscard]] kernels::VocabKeep raised(const kernels::VocabKeep& keep, float floor);

// kernels::vocab_top() of a slice without NaNs, in one pass and a bit.
[[nodiscard]] std::size_t top_of(const kernels::KernelTable& kernels,
                                 const kernels::VocabSlice& slice,
                                 std::span<kernels::VocabCandidate> out);

// Merges `from` into the first `count` entries of `top`, keeping the best `most` of both in order;
// how many there are then.
std::uint32_t merge_top(std::span<kernels::VocabCandidate> top,
                        std::uint32_t count,
                        std::span<const kernels::VocabCandidate> from,
                        std::uint32_t most);

}  // namespace phalanx::model
