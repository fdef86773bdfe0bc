// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/checkpoint/checkpoint.h"

namespace phalanx::model {

// Logits [tokens][vocab] of a whole prompt by the textbook formulas in double precision, without
// cache, batching, sharding or rounding of activations. Shares nothing with the kernels but the
// reading of weights.
[[nodiscard]] std::vector<std::vector<double>> naive_forward(
    const checkpoint::Checkpoint& checkpoint, const std::vector<TokenId>& tokens);

}  // namespace phalanx::model
