// SPDX-License-Identifier: Apache-2.0
#include "model_folder.h"

#include <utility>

#include "phalanx/os/mapped_file.h"

namespace phalanx::app {

namespace {

class MappedBytes final : public model::FileBytes {
 public:
  explicit MappedBytes(os::MappedFile file) : file_(std::move(file)) {}

  [[nodiscard]] std::span<const std::byte> bytes() const override { return file_.bytes(); }
  void done_with(std::size_t offset, std::size_t count) override { file_.drop(offset, count); }

 private:
  os::MappedFile file_;
};

}  // namespace

Result<std::unique_ptr<model::FileBytes>> ModelFolder::open(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || name == "..") {
    return invalid_argument("\"" + name + "\" is no plain file name");
  }
  PHALANX_TRY(os::MappedFile file, os::MappedFile::open(describe(name)));
  return std::unique_ptr<model::FileBytes>(std::make_unique<MappedBytes>(std::move(file)));
}

}  // namespace phalanx::app
