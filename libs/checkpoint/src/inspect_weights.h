// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/inspect.h"
#include "phalanx/checkpoint/model_folder.h"

namespace phalanx::checkpoint {

// What the files say of themselves, supported or not: format, architecture, tensors, context,
// tokenizer.
//
// Errors: as inspect()
Status describe_gguf(ModelFolder& folder, Inspection& inspection);
Status describe_hugging_face(ModelFolder& folder, Inspection& inspection);

}  // namespace phalanx::checkpoint
