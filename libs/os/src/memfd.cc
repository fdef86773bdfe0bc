// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "phalanx/os/machine.h"

namespace phalanx::os {

namespace {

// Linux 6.1 and 5.14; the headers of Debian 12 are older than the first in places.
#ifdef MADV_COLLAPSE
constexpr int kAdviceCollapse = MADV_COLLAPSE;
#else
constexpr int kAdviceCollapse = 25;
#endif
constexpr int kAdvicePopulateRead = 22;
constexpr int kAdvicePopulateWrite = 23;

constexpr int kSizeSeals = F_SEAL_GROW | F_SEAL_SHRINK;

std::uintptr_t round_up(std::uintptr_t value, std::uintptr_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Address space for `bytes` whose start is congruent to `offset` modulo 2 MB. What mmap gives is
// aligned to 4 KB only, so a larger piece is reserved and its ends are given back.
Result<std::byte*> reserve_congruent(std::size_t bytes, std::size_t offset) {
  const std::size_t reserved = bytes + kHugePageBytes;
  void* raw =
      ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) {
    return errno_error("reserving " + std::to_string(reserved) + " bytes of addresses", errno);
  }
  auto* const base = static_cast<std::byte*>(raw);
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const std::uintptr_t remainder = offset % kHugePageBytes;
  std::uintptr_t start = address / kHugePageBytes * kHugePageBytes + remainder;
  if (start < address) {
    start += kHugePageBytes;
  }
  const std::size_t before = start - address;
  const std::size_t after = reserved - before - bytes;
  if (before > 0) {
    ::munmap(base, before);
  }
  if (after > 0) {
    ::munmap(base + before + bytes, after);
  }
  return base + before;
}

std::size_t page_bytes() {
  static const auto kBytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      access_(other.access_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(access_, other.access_);
  }
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) {
    ::munmap(data_, round_up(size_, page_bytes()));
  }
}

std::size_t Mapping::collapse_huge() {
  const auto begin = reinterpret_cast<std::uintptr_t>(data_);
  const std::uintptr_t first = round_up(begin, kHugePageBytes);
  const std::uintptr_t end = begin + round_up(size_, page_bytes());
  std::size_t huge = 0;
  // One call per huge page: a call over the whole range stops at the first page it cannot collapse.
  for (std::uintptr_t at = first; at + kHugePageBytes <= end; at += kHugePageBytes) {
    if (::madvise(data_ + (at - begin), kHugePageBytes, kAdviceCollapse) == 0) {
      huge += kHugePageBytes;
    }
  }
  return huge;
}

Status Mapping::populate() {
  const int advice = access_ == Access::kReadOnly ? kAdvicePopulateRead : kAdvicePopulateWrite;
  if (::madvise(data_, round_up(size_, page_bytes()), advice) != 0) {
    return errno_error("populating a mapping of " + std::to_string(size_) + " bytes", errno);
  }
  return ok();
}

Result<Memfd> Memfd::create(const std::string& name, std::size_t bytes) {
  if (bytes == 0) {
    return invalid_argument("shared memory '" + name + "': a size of 0 bytes makes no sense");
  }
  PHALANX_TRY(const std::uint64_t available, available_memory_bytes());
  if (bytes > available) {
    return resource_exhausted("shared memory '" + name + "' needs " + std::to_string(bytes >> 20) +
                              " MB, " + std::to_string(available >> 20) + " MB are available");
  }
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) {
    return errno_error("creating shared memory '" + name + "'", errno);
  }
  const auto length = static_cast<off_t>(bytes);
  if (::ftruncate(fd.get(), length) != 0) {
    return errno_error("sizing shared memory '" + name + "'", errno);
  }
  int reserved = 0;
  do {
    reserved = ::fallocate(fd.get(), 0, 0, length);
  } while (reserved != 0 && errno == EINTR);
  if (reserved != 0) {
    return errno_error("reserving " + std::to_string(bytes >> 20) + " MB for '" + name + "'",
                       errno);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0) {
    return errno_error("sealing the size of shared memory '" + name + "'", errno);
  }
  return Memfd(std::move(fd), bytes);
}

Result<Memfd> Memfd::adopt(UniqueFd fd, std::size_t expected_bytes) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    return errno_error("looking at a received descriptor", errno);
  }
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return invalid_argument("a received descriptor is no shared memory sealed against shrinking");
  }
  if (info.st_size < 0 || static_cast<std::size_t>(info.st_size) != expected_bytes) {
    return invalid_argument("received shared memory has " + std::to_string(info.st_size) +
                            " bytes, expected " + std::to_string(expected_bytes));
  }
  return Memfd(std::move(fd), expected_bytes);
}

Status Memfd::seal_content() {
  if (::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE | kSizeSeals | F_SEAL_SEAL) != 0) {
    if (errno == EBUSY) {
      return failed_precondition("shared memory cannot be sealed while it is mapped for writing");
    }
    if (errno == EPERM && content_sealed()) {
      return ok();
    }
    return errno_error("sealing shared memory", errno);
  }
  return ok();
}

bool Memfd::content_sealed() const {
  const int seals = ::fcntl(fd_.get(), F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_WRITE) != 0;
}

Result<Mapping> Memfd::map(Access access, std::size_t offset, std::size_t bytes) const {
  if (offset % page_bytes() != 0 || bytes == 0 || offset > size_ || bytes > size_ - offset) {
    return invalid_argument("mapping bytes " + std::to_string(offset) + " + " +
                            std::to_string(bytes) + " of shared memory of " +
                            std::to_string(size_) + " bytes");
  }
  if (access == Access::kReadWrite && content_sealed()) {
    return failed_precondition("sealed shared memory cannot be mapped for writing");
  }
  const std::size_t length = round_up(bytes, page_bytes());
  PHALANX_TRY(std::byte * address, reserve_congruent(length, offset));
  const int protection = access == Access::kReadOnly ? PROT_READ : PROT_READ | PROT_WRITE;
  void* mapped = ::mmap(
      address, length, protection, MAP_SHARED | MAP_FIXED, fd_.get(), static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) {
    const int code = errno;
    ::munmap(address, length);
    return errno_error("mapping shared memory", code);
  }
  return Mapping(static_cast<std::byte*>(mapped), bytes, access);
}

}  // namespace phalanx::os
