// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "phalanx/base/result.h"
#include "phalanx/http/journal.h"
#include "phalanx/os/memfd.h"

namespace phalanx::front {

// What there is to do for a connection.
struct LeftExtent {
  std::uint64_t bytes = 0;  // at most: what read() will have to copy
  bool is_awaited = false;  // its client waits for an answer, or for the rest of one
};

// What a front that is dead and reaped has left in its journal (proto/front-journal.md). Nothing in
// the memory is trusted: whatever it holds, the work and the answers are bounded by its size.
//
// Ownership: a mapping of its own.
// Threads: const, any.
class LeftJournal {
 public:
  // `fd` stays the caller's.
  // Errors: kInvalidArgument  no memfd, or one that could shrink
  //         those of the kernel
  [[nodiscard]] static Result<LeftJournal> open(int fd);

  // Whether the descriptor is one of the same memory.
  [[nodiscard]] bool is(int fd) const;

  // What is left of a connection whose socket the front had read and written so far.
  // Blocks: for copying that much.
  // Errors: kDataLoss  nothing is kept of the connection, or what is kept contradicts itself or the
  //                    numbers
  [[nodiscard]] Result<http::Resumption> read(std::uint32_t place,
                                              std::uint64_t connection,
                                              std::uint64_t received,
                                              std::uint64_t sent) const;

  // Errors: as read()
  [[nodiscard]] Result<LeftExtent> extent(std::uint32_t place,
                                          std::uint64_t connection,
                                          std::uint64_t received,
                                          std::uint64_t sent) const;

 private:
  LeftJournal(os::Mapping mapping, dev_t device, ino_t inode)
      : mapping_(std::move(mapping)), device_(device), inode_(inode) {}

  os::Mapping mapping_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace phalanx::front
