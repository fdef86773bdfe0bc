// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/front_journal.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "phalanx/os/machine.h"

namespace phalanx::keeper {

namespace {

constexpr std::uint64_t kPageBytes = 4096;

// False if less than all of it can be read.
template <typename Value>
bool read_at(int fd, std::size_t offset, Value* value) {
  ssize_t count = 0;
  do {
    count = ::pread(fd, value, sizeof *value, static_cast<off_t>(offset));
  } while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof *value);
}

}  // namespace

std::uint64_t FrontJournal::bytes_of(std::uint32_t places, std::uint64_t own_bytes) {
  const std::uint64_t bytes = wire::journal_record_offset(places) + own_bytes;
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

Result<std::shared_ptr<FrontJournal>> FrontJournal::create(std::uint64_t bytes,
                                                           std::uint32_t places) {
  if (bytes < wire::journal_record_offset(places)) {
    return invalid_argument("a journal of " + std::to_string(bytes) + " bytes has no room for " +
                            std::to_string(places) + " records");
  }
  // Asked before, because the kernel's answer would be a signal.
  PHALANX_TRY(const os::ProcessLimits limits, os::process_limits());
  if (limits.file_bytes < bytes) {
    return resource_exhausted("a journal needs " + std::to_string(bytes >> 20) +
                              " MB, and files of this process may have " +
                              std::to_string(limits.file_bytes >> 20) + " MB");
  }
  PHALANX_TRY(os::Memfd memory, os::Memfd::reserve("phalanx-front-journal", bytes));
  const wire::JournalHeader header{
      .magic = wire::kJournalMagic, .format = wire::kJournalFormat, .places = places};
  if (::pwrite(memory.fd(), &header, sizeof header, 0) != ssize_t{sizeof header}) {
    return errno_error("writing the header of a journal", errno);
  }
  return std::shared_ptr<FrontJournal>(new FrontJournal(std::move(memory), places));
}

Status FrontJournal::close_for_writing() {
  PHALANX_TRY(reading_, memory_.open_for_reading());
  return ok();
}

// Nobody's, where there is none.
wire::JournalOwner FrontJournal::owner(std::uint32_t place) const {
  wire::JournalOwner owner;
  const bool is_read = place < places_ && read_at(fd(), wire::journal_record_offset(place), &owner);
  return is_read ? owner : wire::JournalOwner();
}

bool FrontJournal::knows(std::uint32_t place, std::uint64_t connection) const {
  return owner(place).connection == connection;
}

bool FrontJournal::holds(std::uint32_t place, std::uint64_t connection) const {
  const wire::JournalOwner found = owner(place);
  return found.connection == connection && found.published != 0;
}

FrontJournal::Marks FrontJournal::marks() const {
  wire::JournalHeader header;
  return read_at(fd(), 0, &header) ? header.marks : Marks{};
}

}  // namespace phalanx::keeper
