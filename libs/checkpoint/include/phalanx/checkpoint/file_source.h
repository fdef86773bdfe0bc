// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "phalanx/base/result.h"

namespace phalanx::checkpoint {

// The bytes of one file for as long as the object lives.
class FileBytes {
 public:
  FileBytes() = default;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  virtual ~FileBytes() = default;

  [[nodiscard]] virtual std::span<const std::byte> bytes() const = 0;

  // Says that [offset, offset + count) is not read again, so that its pages may leave memory.
  virtual void done_with(std::size_t offset, std::size_t count) = 0;
};

// The folder that a checkpoint is read from: a Hugging Face folder, or the one in which a GGUF file
// lies. The programs map files; tests hand out memory.
// Threads: one at a time.
class FileSource {
 public:
  FileSource() = default;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  virtual ~FileSource() = default;

  // `name` is a plain file name: no separator, not "..".
  // Errors: kNotFound  there is no such file, or nothing behind its name
  [[nodiscard]] virtual Result<std::unique_ptr<FileBytes>> open(const std::string& name) = 0;

  // Whether there is something of this name, be it a file that can be opened or not: what may be
  // absent and is there must be right.
  [[nodiscard]] virtual bool has(const std::string& name) const = 0;

  // The name of the GGUF file to read (any file of a split model); empty: a Hugging Face folder.
  [[nodiscard]] virtual std::string gguf_name() const { return {}; }

  // For messages: what `name` is called outside, usually a path.
  [[nodiscard]] virtual std::string describe(const std::string& name) const = 0;
};

}  // namespace phalanx::checkpoint
