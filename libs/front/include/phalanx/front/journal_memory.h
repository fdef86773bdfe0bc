// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "phalanx/base/result.h"
#include "phalanx/http/journal.h"
#include "phalanx/os/memfd.h"
#include "phalanx/os/unique_fd.h"
#include "phalanx/wire/front_journal.h"

namespace phalanx::front {

class ConnectionJournal;
class JournalBlocks;

// The journals of a front in memory that outlives it (proto/front-journal.md): a record for each
// connection that has a place, and blocks that all of them share.
//
// Ownership: the mapping. Outlives its journals.
// Threads: the loop thread; mark() any, each with a number of its own.
// Blocks: never; what the memory is given back for is bounded in each call.
class JournalMemory {
 public:
  // Takes the memory that the leader has made for this life of the front, with its header written.
  //
  // Errors: kInvalidArgument  no memfd of that size, sealed against shrinking; another header than
  //                           expected; no room for a block behind the records
  [[nodiscard]] static Result<std::unique_ptr<JournalMemory>> adopt(os::UniqueFd fd,
                                                                    std::size_t bytes,
                                                                    std::uint32_t places);
  JournalMemory(const JournalMemory&) = delete;
  JournalMemory& operator=(const JournalMemory&) = delete;
  ~JournalMemory();

  // A journal for a connection of which so many bytes have been read and written, none of which is
  // still needed. Nothing is kept before its first room() or publish(). Null if there is no such
  // place, or if another journal has it.
  //
  // It demands what http::Journal does: a state does not lie behind what was received, `sent` not
  // behind what was published. A room is good until the next call that is not received().
  [[nodiscard]] std::unique_ptr<http::Journal> open(std::uint32_t place,
                                                    std::uint64_t connection,
                                                    std::uint64_t received,
                                                    std::uint64_t sent);

  // A journal for a connection that goes on where `left` ends, all of which is kept with a single
  // publication: whoever dies while it is copied leaves nothing in this memory, and the old one
  // still holds. Null as in open(), and where the bytes are not those that lie between the state
  // and the numbers; lost() where memory is short.
  [[nodiscard]] std::unique_ptr<http::Journal> go_on(std::uint32_t place,
                                                     std::uint64_t connection,
                                                     const http::Resumption& left,
                                                     std::uint64_t received,
                                                     std::uint64_t sent);

  // From now on this thread (< wire::kJournalMarks) works for the connection; 0: for none.
  void mark(std::size_t thread, std::uint64_t connection);

  // Gives some pages back to the kernel, of blocks that were not used in this second and the one
  // before. Whether there are more. Takes some tens of microseconds.
  [[nodiscard]] bool give_back_some();
  void end_second();  // to be called each second

  // Of the blocks that journals hold.
  [[nodiscard]] std::size_t bytes_in_use() const;

  // Journals that were lost because there was no memory for them.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  JournalMemory(os::Mapping mapping, std::uint32_t places);

  [[nodiscard]] std::unique_ptr<ConnectionJournal> journal(std::uint32_t place,
                                                           std::uint64_t connection,
                                                           std::uint64_t received,
                                                           std::uint64_t sent);

  os::Mapping mapping_;
  std::uint32_t places_;
  std::unique_ptr<JournalBlocks> blocks_;
};

}  // namespace phalanx::front
