// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/model_folder.h"
#include "phalanx/modelfile/inspect.h"

namespace phalanx::modelfile {

// What the files say of themselves, supported or not: format, architecture, tensors, context,
// tokenizer.
//
// Errors: as inspect()
Status describe_gguf(checkpoint::ModelFolder& folder, Inspection& inspection);
Status describe_hugging_face(checkpoint::ModelFolder& folder, Inspection& inspection);

}  // namespace phalanx::modelfile
