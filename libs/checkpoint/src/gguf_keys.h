// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/gguf/metadata.h"

namespace phalanx::checkpoint {

// Keys of one architecture: `block_count` is looked up as "llama.block_count".
class GgufKeys {
 public:
  GgufKeys(const gguf::Metadata& metadata, std::string prefix)
      : metadata_(metadata), prefix_(std::move(prefix)) {}

  [[nodiscard]] std::string name(std::string_view key) const {
    return prefix_ + "." + std::string(key);
  }
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  [[nodiscard]] const gguf::Metadata& all() const { return metadata_; }
  [[nodiscard]] bool has(std::string_view key) const { return metadata_.has(name(key)); }

  // A number, or an array that says the same number for each layer.
  [[nodiscard]] Result<std::uint32_t> positive(std::string_view key, std::uint32_t most) const;
  [[nodiscard]] Result<std::uint32_t> positive_or(std::string_view key,
                                                  std::uint32_t most,
                                                  std::uint32_t absent) const {
    return has(key) ? positive(key, most) : Result<std::uint32_t>(absent);
  }
  [[nodiscard]] Result<double> number(std::string_view key, double least, double most) const {
    PHALANX_TRY(const double value, metadata_.number(name(key)));
    if (value < least || value > most) {
      return invalid_argument("key \"" + name(key) + "\": expected a number from " +
                              gguf::number_text(least) + " to " + gguf::number_text(most) +
                              ", found " + gguf::number_text(value));
    }
    return value;
  }
  [[nodiscard]] Result<double> number_or(std::string_view key,
                                         double least,
                                         double most,
                                         double absent) const {
    return has(key) ? number(key, least, most) : Result<double>(absent);
  }
  [[nodiscard]] Result<std::string_view> text(std::string_view key) const {
    return metadata_.text(name(key));
  }

 private:
  const gguf::Metadata& metadata_;
  std::string prefix_;
};

}  // namespace phalanx::checkpoint
