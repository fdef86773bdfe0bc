// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/model/file_source.h"

namespace phalanx::app {

// A model folder on disk whose files are memory-mapped.
class ModelFolder final : public model::FileSource {
 public:
  explicit ModelFolder(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] Result<std::unique_ptr<model::FileBytes>> open(const std::string& name) override;
  [[nodiscard]] std::string describe(const std::string& name) const override {
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

}  // namespace phalanx::app
