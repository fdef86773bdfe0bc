// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "phalanx/base/result.h"

namespace phalanx::os {

// A file mapped for reading. A file that is cut while it is mapped ends the reader with SIGBUS:
// model files are taken as immutable while they are read.
//
// Ownership: unmaps at the end; the descriptor is closed at once. Move-only.
class MappedFile {
 public:
  // Errors: as read_file(), but for its bound
  [[nodiscard]] static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

  // The range is not read again: its pages leave this process and the page cache. A hint.
  void drop(std::size_t offset, std::size_t count);

 private:
  MappedFile(std::string path, const std::byte* data, std::size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace phalanx::os
