// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/base/result.h"

namespace phalanx::checkpoint {

// Whether there is something at `path` that could be a model, by the names of what is there.
//
// Blocks: reads folders.
// Errors: kNotFound         nothing there, or a folder that lacks a file of a Hugging Face folder; the
//                           message names what to take or to make instead, where it sees it
//         kInvalidArgument  a file of such a folder
[[nodiscard]] Status check_model_path(const std::string& path);

// What the model is called when nobody named it: the last part of the path, for a GGUF file without
// ".gguf" and without the number of a split file, unless nothing would be left. "/" is "model".
[[nodiscard]] std::string model_name_of(const std::string& path);

}  // namespace phalanx::checkpoint
