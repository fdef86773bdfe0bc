// SPDX-License-Identifier: Apache-2.0
// The files of one GGUF model, opened, checked and joined.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/file_source.h"
#include "phalanx/gguf/file.h"

namespace phalanx::checkpoint {

class GgufModel {
 public:
  // `name`: any file of the model.
  //
  // Errors: kNotFound  a file of a split model is missing
  //         kDataLoss, kUnimplemented, kInvalidArgument as gguf::File::parse and the split keys
  [[nodiscard]] static Result<GgufModel> open(FileSource& files, const std::string& name);

  // Of the first file, which has all of it.
  [[nodiscard]] const gguf::Metadata& metadata() const { return files_.front().parsed.metadata(); }

  struct Place {
    std::size_t file = 0;
    const gguf::Tensor* tensor = nullptr;  // null: there is none
  };
  [[nodiscard]] Place find(std::string_view tensor) const;

  // By name, over all files.
  [[nodiscard]] const std::map<std::string_view, Place>& tensors() const { return tensors_; }

  // What the file is called outside, for messages.
  [[nodiscard]] const std::string& name_of(std::size_t file) const { return files_[file].name; }

  // Gives the bytes away, in the order of Place::file; tensors keep pointing into them.
  [[nodiscard]] std::vector<std::unique_ptr<FileBytes>> take_bytes() &&;

 private:
  struct Part {
    std::string name;
    std::unique_ptr<FileBytes> bytes;
    gguf::File parsed;
  };

  static Result<Part> open_part(FileSource& files, const std::string& name);
  Status join(std::uint64_t expected_tensors);

  std::vector<Part> files_;
  std::map<std::string_view, Place> tensors_;
};

}  // namespace phalanx::checkpoint
