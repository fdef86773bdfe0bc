// SPDX-License-Identifier: Apache-2.0
#include "phalanx/front/left_journal.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "journal_layout.h"

namespace phalanx::front {

namespace {

// A copy: what was checked is what is used, whoever else could still write there.
template <typename Pod>
Pod copy_of(std::span<const std::byte> memory, std::size_t offset) {
  Pod copy;
  std::memcpy(&copy, memory.data() + offset, sizeof copy);
  return copy;
}

// Of a memory that has the place, and is as large as its header says.
Result<wire::JournalHeader> checked_header(std::span<const std::byte> memory, std::uint32_t place) {
  if (memory.size() < sizeof(wire::JournalHeader)) {
    return data_loss("memory for journals of " + std::to_string(memory.size()) + " bytes");
  }
  const auto header = copy_of<wire::JournalHeader>(memory, 0);
  if (header.magic != wire::kJournalMagic || header.format != wire::kJournalFormat) {
    return data_loss("no journals of format " + std::to_string(wire::kJournalFormat));
  }
  if (header.places > wire::kMaxJournalPlaces ||
      journal_blocks_offset(header.places) > memory.size()) {
    return data_loss("journals of " + std::to_string(header.places) + " connections in " +
                     std::to_string(memory.size()) + " bytes");
  }
  if (place >= header.places) {
    return data_loss("place " + std::to_string(place) + " of " + std::to_string(header.places));
  }
  return header;
}

// The one that holds.
Result<JournalSlot> slot_of(std::span<const std::byte> memory,
                            std::uint32_t place,
                            std::uint64_t connection) {
  const auto record = copy_of<JournalRecord>(memory, wire::journal_record_offset(place));
  if (connection == 0 || record.owner.connection != connection || record.owner.published == 0) {
    return data_loss("nothing is kept of connection " + std::to_string(connection));
  }
  return record.slots[record.owner.published % 2];
}

Result<http::ConnectionState> restored_state(const StoredState& stored) {
  const std::array flags{stored.keep_alive,
                         stored.http_1_1,
                         stored.chunked,
                         stored.is_sse,
                         stored.head_only,
                         stored.continued,
                         stored.in_body};
  if (stored.stage > static_cast<std::uint8_t>(http::Stage::kComplete) ||
      std::any_of(flags.begin(), flags.end(), [](std::uint8_t flag) { return flag > 1; })) {
    return data_loss("a state that no connection has");
  }
  return http::ConnectionState{.stage = static_cast<http::Stage>(stored.stage),
                               .keep_alive = stored.keep_alive == 1,
                               .http_1_1 = stored.http_1_1 == 1,
                               .chunked = stored.chunked == 1,
                               .is_sse = stored.is_sse == 1,
                               .head_only = stored.head_only == 1,
                               .continued = stored.continued == 1,
                               .in_body = stored.in_body == 1,
                               .deadline_ms = stored.deadline_ms,
                               .ordinal = stored.ordinal,
                               .request_begin = stored.request_begin,
                               .request_end = stored.request_end,
                               .drawn_id = stored.drawn_id,
                               .notes = stored.notes};
}

Status check_request(const http::ConnectionState& state, std::uint64_t received) {
  const bool whole = state.stage != http::Stage::kReading;
  if (state.request_begin > received ||
      (whole && (state.request_end < state.request_begin || state.request_end > received))) {
    return data_loss("a request from byte " + std::to_string(state.request_begin) + " to " +
                     std::to_string(state.request_end) + " of " + std::to_string(received));
  }
  return ok();
}

// The bytes [begin, end) of the connection, from a chain that says where it begins.
Result<std::string> bytes_of(std::span<const std::byte> blocks,
                             const StoredChain& chain,
                             std::uint64_t connection,
                             std::uint64_t begin,
                             std::uint64_t end) {
  if (begin < chain.at || end < begin) {
    return data_loss("bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                     " of a chain from " + std::to_string(chain.at));
  }
  std::string bytes;
  if (begin == end) {
    return bytes;
  }
  bytes.reserve(std::min<std::uint64_t>(end - begin, blocks.size()));
  const std::size_t count = blocks.size() / kBlockBytes;
  const std::uint64_t skipped = begin - chain.at;
  const std::uint64_t length = end - chain.at;
  if ((length - 1) / kPayloadBytes >= count) {
    return data_loss("a chain of " + std::to_string(length) + " bytes");
  }
  // By length, so a chain that leads into itself ends, too.
  std::uint32_t block = chain.first;
  for (std::uint64_t at = 0; at < length; at += kPayloadBytes) {
    if (block == 0 || block > count) {
      return data_loss("a chain leads to block " + std::to_string(block) + " of " +
                       std::to_string(count));
    }
    const std::size_t offset = std::size_t{block - 1} * kBlockBytes;
    const auto head = copy_of<BlockHead>(blocks, offset);
    if (head.owner != static_cast<std::uint32_t>(connection)) {
      return data_loss("a chain leads to a block of another connection");
    }
    const std::size_t from = std::clamp<std::uint64_t>(skipped, at, at + kPayloadBytes) - at;
    const std::size_t to = std::min<std::uint64_t>(length - at, kPayloadBytes);
    bytes.append(reinterpret_cast<const char*>(blocks.data() + offset + sizeof head + from),
                 to - from);
    block = head.next;
  }
  return bytes;
}

}  // namespace

Result<LeftJournal> LeftJournal::open(int fd) {
  struct stat info {};
  os::UniqueFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own.valid() || ::fstat(own.get(), &info) != 0) {
    return errno_error("looking at the journals of a front", errno);
  }
  PHALANX_TRY(const os::Memfd memory,
              os::Memfd::adopt(std::move(own), static_cast<std::size_t>(info.st_size)));
  PHALANX_TRY(os::Mapping mapping, memory.map(os::Access::kReadOnly));
  PHALANX_RETURN_IF_ERROR(mapping.exclude_from_dumps());
  return LeftJournal(std::move(mapping), info.st_dev, info.st_ino);
}

bool LeftJournal::is(int fd) const {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
}

Result<LeftExtent> LeftJournal::extent(std::uint32_t place,
                                       std::uint64_t connection,
                                       std::uint64_t received,
                                       std::uint64_t sent) const {
  PHALANX_RETURN_IF_ERROR(checked_header(mapping_.bytes(), place));
  PHALANX_TRY(const JournalSlot slot, slot_of(mapping_.bytes(), place, connection));
  if (slot.state.request_begin > received || slot.out_end < sent) {
    return data_loss("what is kept begins behind what was received or sent");
  }
  return LeftExtent{received - slot.state.request_begin + slot.out_end - sent,
                    slot.state.stage != static_cast<std::uint8_t>(http::Stage::kReading)};
}

Result<http::Resumption> LeftJournal::read(std::uint32_t place,
                                           std::uint64_t connection,
                                           std::uint64_t received,
                                           std::uint64_t sent) const {
  const std::span<const std::byte> memory = mapping_.bytes();
  PHALANX_TRY(const wire::JournalHeader header, checked_header(memory, place));
  PHALANX_TRY(const JournalSlot slot, slot_of(memory, place, connection));
  http::Resumption left;
  PHALANX_TRY(left.state, restored_state(slot.state));
  PHALANX_RETURN_IF_ERROR(check_request(left.state, received));
  const std::span<const std::byte> blocks = memory.subspan(journal_blocks_offset(header.places));
  if (http::needs_received(left.state)) {
    PHALANX_TRY(left.received,
                bytes_of(blocks, slot.in, connection, left.state.request_begin, received));
  }
  PHALANX_TRY(left.to_send, bytes_of(blocks, slot.out, connection, sent, slot.out_end));
  return left;
}

}  // namespace phalanx::front
