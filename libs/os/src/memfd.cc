// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "phalanx/os/machine.h"

#include "mapping_error.h"

namespace phalanx::os {

namespace {

// Linux 6.1 and 5.14; the headers of Debian 12 are older than the first in places.
#ifdef MADV_COLLAPSE
constexpr int kAdviceCollapse = MADV_COLLAPSE;
#else
constexpr int kAdviceCollapse = 25;
#endif
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
    return mapping_error("reserving " + std::to_string(reserved) + " bytes of addresses", errno);
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

Error out_of_bounds(std::size_t offset, std::size_t bytes, std::size_t size) {
  return invalid_argument("bytes " + std::to_string(offset) + " + " + std::to_string(bytes) +
                          " of shared memory of " + std::to_string(size) + " bytes");
}

// Gives the range memory in pages of 4 KB where it has none. Answers errno, 0 for success.
int allocate(int fd, std::size_t offset, std::size_t bytes) {
  int code = 0;
  do {
    code =
        ::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (code == EINTR);
  return code;
}

// Bytes that one call of make_huge() should take: a call drains the page lists of every core first,
// which costs some milliseconds, and ends at the first huge page that the kernel does not have.
constexpr std::size_t kCollapseBytes = 8 * kHugePageBytes;

// Makes the range, whole huge pages, huge, if the kernel can. MADV_COLLAPSE works whatever the
// sysfs setting for shared memory is, but not where nothing is mapped yet: hence a first page in
// each. It is populated by the kernel, because a touch that finds no memory would be SIGBUS.
void make_huge(std::byte* begin, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kHugePageBytes) {
    if (::madvise(begin + at, page_bytes(), kAdvicePopulateWrite) != 0) {
      return;
    }
  }
  static_cast<void>(::madvise(begin, bytes, kAdviceCollapse));
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) {
    ::munmap(data_, round_up(size_, page_bytes()));
  }
}

Status Mapping::exclude_from_dumps() {
  if (::madvise(data_, round_up(size_, page_bytes()), MADV_DONTDUMP) != 0) {
    return errno_error("keeping a mapping out of core dumps", errno);
  }
  return ok();
}

Status Mapping::discard() {
  if (::madvise(data_, round_up(size_, page_bytes()), MADV_REMOVE) != 0) {
    return errno_error("giving back " + std::to_string(size_) + " bytes of shared memory", errno);
  }
  return ok();
}

Result<Memfd> Memfd::reserve(const std::string& name, std::size_t bytes) {
  if (bytes == 0) {
    return invalid_argument("shared memory '" + name + "': a size of 0 bytes makes no sense");
  }
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) {
    return errno_error("creating shared memory '" + name + "'", errno);
  }
  if (bytes > static_cast<std::size_t>(std::numeric_limits<off_t>::max()) ||
      ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return errno_error("sizing shared memory '" + name + "'", errno);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0) {
    return errno_error("sealing the size of shared memory '" + name + "'", errno);
  }
  return Memfd(std::move(fd), bytes);
}

Result<Memfd> Memfd::create(const std::string& name, std::size_t bytes) {
  PHALANX_TRY(const std::uint64_t available, available_memory_bytes());
  if (bytes > available) {
    return resource_exhausted("shared memory '" + name + "' needs " + std::to_string(bytes >> 20) +
                              " MB, " + std::to_string(available >> 20) + " MB are available");
  }
  PHALANX_TRY(Memfd memory, reserve(name, bytes));
  if (const int code = allocate(memory.fd(), 0, bytes); code != 0) {
    return errno_error("reserving " + std::to_string(bytes >> 20) + " MB for '" + name + "'", code);
  }
  return memory;
}

Status Memfd::back(std::size_t offset, std::size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) {
    return out_of_bounds(offset, bytes, size_);
  }
  // The kernel would rather end a process than refuse the last page, so it is not driven that far.
  PHALANX_TRY(const std::uint64_t available, available_memory_bytes());
  if (bytes + kMemoryLeftToOthers > available) {
    return resource_exhausted("shared memory needs " + std::to_string(bytes >> 20) + " MB more, " +
                              std::to_string(available >> 20) + " MB are available");
  }
  const std::size_t first = round_up(offset, kHugePageBytes);
  const std::size_t end = (offset + bytes) / kHugePageBytes * kHugePageBytes;
  if (first < end) {
    PHALANX_TRY(const Mapping mapping, map(Access::kReadWrite, first, end - first));
    for (std::size_t at = 0; at < mapping.size(); at += kCollapseBytes) {
      make_huge(mapping.data() + at, std::min(kCollapseBytes, mapping.size() - at));
    }
  }
  if (const int code = allocate(fd_.get(), offset, bytes); code != 0) {
    return errno_error("allocating " + std::to_string(bytes >> 20) + " MB of shared memory", code);
  }
  return ok();
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

Result<UniqueFd> Memfd::open_for_reading() const {
  const std::string path = "/proc/self/fd/" + std::to_string(fd_.get());
  UniqueFd reading(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!reading.valid()) {
    return errno_error("opening shared memory for reading", errno);
  }
  return reading;
}

bool Memfd::give_back_first(std::size_t bytes) const {
  const off_t data = ::lseek(fd_.get(), 0, SEEK_DATA);
  return data >= 0 && ::fallocate(fd_.get(),
                                  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  data,
                                  static_cast<off_t>(bytes)) == 0;
}

Result<Mapping> Memfd::map(Access access, std::size_t offset, std::size_t bytes) const {
  if (offset % page_bytes() != 0 || bytes == 0 || offset > size_ || bytes > size_ - offset) {
    return out_of_bounds(offset, bytes, size_);
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
  return Mapping(static_cast<std::byte*>(mapped), bytes);
}

}  // namespace phalanx::os
