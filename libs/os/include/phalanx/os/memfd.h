// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "phalanx/base/result.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// What back() leaves available on the machine or in the memory cgroup.
inline constexpr std::size_t kMemoryLeftToOthers = std::size_t{64} << 20;

enum class Access { kReadOnly, kReadWrite };

// A mapped range of a Memfd. Unmaps when destroyed; the memory lives on while any process maps it
// or holds a descriptor.
//
// The address is congruent to the file offset modulo 2 MB, so that huge pages of the file can be
// mapped as such.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] bool valid() const { return data_ != nullptr; }

  // Keeps the range out of core dumps, which would otherwise be as large as it is.
  [[nodiscard]] Status exclude_from_dumps();

  // Gives the memory of the range back to the kernel, for every mapper: it reads as zeroes, and
  // what writes to it without Memfd::back() takes the risk of SIGBUS. Requires kReadWrite.
  [[nodiscard]] Status discard();

 private:
  friend class Memfd;
  Mapping(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Anonymous shared memory of a fixed size: passed by descriptor, without a name that could be left
// behind. Growing and shrinking are sealed at creation, so a mapper never meets SIGBUS.
// Threads: any; the calls do not touch shared state of this object.
class Memfd {
 public:
  Memfd() = default;

  // Creates `bytes` of zeroes and reserves them now, so that lack of memory is an error here and
  // not a kill later.
  //
  // Errors: kResourceExhausted  more than is available (see available_memory_bytes()), or no
  //                             descriptor left
  //         kInvalidArgument    bytes is 0
  [[nodiscard]] static Result<Memfd> create(const std::string& name, std::size_t bytes);

  // Creates the address space only: `bytes` of zeroes without memory. What is written to must be
  // given memory by back() first.
  //
  // Errors: as create(), but for what is available
  [[nodiscard]] static Result<Memfd> reserve(const std::string& name, std::size_t bytes);

  // Takes a descriptor that came from another process.
  //
  // Errors: kInvalidArgument  no memfd, another size than `expected_bytes`, or one that could
  //                           shrink under a mapper
  [[nodiscard]] static Result<Memfd> adopt(UniqueFd fd, std::size_t expected_bytes);

  // Gives the range memory, in huge pages where whole ones lie in it and the kernel has them; what
  // is there keeps its contents. Leaves kMemoryLeftToOthers to others. Huge pages cost about a
  // tenth of the 4 KB pages in their place, to make and to map.
  // Blocks: for about 0.6 s per GB; callers that must answer ask for pieces, of 16 MB at least,
  // because each call costs some milliseconds.
  //
  // Errors: kResourceExhausted  the memory is not there; part of the range may have been given some
  //         kInvalidArgument    out of bounds
  [[nodiscard]] Status back(std::size_t offset, std::size_t bytes) const;

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool valid() const { return fd_.valid(); }
  [[nodiscard]] std::size_t size() const { return size_; }

  // Makes the content immutable for everybody, for good.
  // Errors: kFailedPrecondition  a writable mapping exists somewhere.
  [[nodiscard]] Status seal_content();
  [[nodiscard]] bool content_sealed() const;

  // A descriptor of the same memory that can only be read by.
  [[nodiscard]] Result<UniqueFd> open_for_reading() const;

  // Gives the kernel back what lies in `bytes` from the first that has memory on; it reads as
  // zeroes then. Requires that nobody maps it. False: nothing has memory, or it cannot be given
  // back.
  [[nodiscard]] bool give_back_first(std::size_t bytes) const;

  // Maps all of it, or the range. `offset` is a multiple of the page size.
  // Errors: kInvalidArgument range out of bounds; kFailedPrecondition content sealed and
  //         read-write asked for.
  [[nodiscard]] Result<Mapping> map(Access access) const { return map(access, 0, size_); }
  [[nodiscard]] Result<Mapping> map(Access access, std::size_t offset, std::size_t bytes) const;

 private:
  Memfd(UniqueFd fd, std::size_t size) : fd_(std::move(fd)), size_(size) {}

  UniqueFd fd_;
  std::size_t size_ = 0;
};

}  // namespace phalanx::os
