// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "forward_program.h"

namespace phalanx::model {

struct SamplingShape {
  std::size_t rows_max = 0;
  std::size_t logits_stride = 0;
  std::uint32_t ranks = 1;
};

// Records the phases of `sampler` behind the logits.
void record_sampling(const SamplingShape& shape,
                     const ForwardBuffers& resident,
                     BufferId logits,
                     Sampler* sampler,
                     ProgramRecorder& recorder);

}  // namespace phalanx::model
