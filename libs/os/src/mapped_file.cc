// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "phalanx/os/unique_fd.h"

#include "mapping_error.h"
#include "regular_file.h"

namespace phalanx::os {

Result<MappedFile> MappedFile::open(const std::string& path) {
  PHALANX_TRY(const RegularFile file, open_regular_file(path));
  if (file.size == 0) {
    return MappedFile(path, nullptr, 0);
  }
  void* data = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.fd.get(), 0);
  if (data == MAP_FAILED) {
    return mapping_error("mapping " + path, errno);
  }
  ::madvise(data, file.size, MADV_SEQUENTIAL);
  return MappedFile(path, static_cast<const std::byte*>(data), file.size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

void MappedFile::drop(std::size_t offset, std::size_t count) {
  if (data_ == nullptr || offset >= size_) {
    return;
  }
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Only whole pages inside the range: its neighbours may still be read.
  const std::size_t begin = (offset + page - 1) / page * page;
  const std::size_t end = std::min(offset + count, size_) / page * page;
  if (begin >= end) {
    return;
  }
  ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
  const UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.valid()) {
    ::posix_fadvise(
        fd.get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin), POSIX_FADV_DONTNEED);
  }
}

}  // namespace phalanx::os
