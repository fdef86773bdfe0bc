// SPDX-License-Identifier: Apache-2.0
#include "phalanx/front/journal_memory.h"

#include <atomic>
#include <string>
#include <utility>

#include "phalanx/base/check.h"

#include "connection_journal.h"
#include "journal_blocks.h"
#include "journal_layout.h"

namespace phalanx::front {

Result<std::unique_ptr<JournalMemory>> JournalMemory::adopt(os::UniqueFd fd,
                                                            std::size_t bytes,
                                                            std::uint32_t places) {
  if (places > wire::kMaxJournalPlaces || bytes < journal_blocks_offset(places) + kBlockBytes) {
    return invalid_argument("journals of " + std::to_string(places) + " connections in " +
                            std::to_string(bytes) + " bytes");
  }
  PHALANX_TRY(const os::Memfd memory, os::Memfd::adopt(std::move(fd), bytes));
  PHALANX_TRY(os::Mapping mapping, memory.map(os::Access::kReadWrite));
  PHALANX_RETURN_IF_ERROR(mapping.exclude_from_dumps());
  const auto& header = *reinterpret_cast<const wire::JournalHeader*>(mapping.data());
  if (header.magic != wire::kJournalMagic || header.format != wire::kJournalFormat ||
      header.places != places) {
    return invalid_argument("memory for journals of format " + std::to_string(header.format) +
                            " with " + std::to_string(header.places) + " places, expected format " +
                            std::to_string(wire::kJournalFormat) + " with " +
                            std::to_string(places));
  }
  return std::unique_ptr<JournalMemory>(new JournalMemory(std::move(mapping), places));
}

JournalMemory::JournalMemory(os::Mapping mapping, std::uint32_t places)
    : mapping_(std::move(mapping)),
      places_(places),
      blocks_(std::make_unique<JournalBlocks>(
          mapping_.bytes().subspan(journal_blocks_offset(places)))) {}

JournalMemory::~JournalMemory() = default;

std::unique_ptr<ConnectionJournal> JournalMemory::journal(std::uint32_t place,
                                                          std::uint64_t connection,
                                                          std::uint64_t received,
                                                          std::uint64_t sent) {
  if (place >= places_) {
    return nullptr;
  }
  auto& record =
      *reinterpret_cast<JournalRecord*>(mapping_.data() + wire::journal_record_offset(place));
  if (record.owner.connection != 0) {
    return nullptr;
  }
  return std::make_unique<ConnectionJournal>(*blocks_, record, connection, received, sent);
}

std::unique_ptr<http::Journal> JournalMemory::open(std::uint32_t place,
                                                   std::uint64_t connection,
                                                   std::uint64_t received,
                                                   std::uint64_t sent) {
  return journal(place, connection, received, sent);
}

std::unique_ptr<http::Journal> JournalMemory::go_on(std::uint32_t place,
                                                    std::uint64_t connection,
                                                    const http::Resumption& left,
                                                    std::uint64_t received,
                                                    std::uint64_t sent) {
  const std::uint64_t begin = left.state.request_begin;
  if (begin > received ||
      (http::needs_received(left.state) && received - begin != left.received.size())) {
    return nullptr;
  }
  auto result = journal(place, connection, begin, sent);
  if (result != nullptr) {
    result->keep_received(left.received);
    result->append(left.to_send, sent);
    result->publish(left.state, sent);
  }
  return result;
}

void JournalMemory::mark(std::size_t thread, std::uint64_t connection) {
  PHALANX_CHECK(thread < wire::kJournalMarks, "a thread without a mark");
  std::uint64_t& word = reinterpret_cast<wire::JournalHeader*>(mapping_.data())->marks[thread];
  // Ordered against what the thread does for the one and for the other.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  store_in_order(word, connection);
}

bool JournalMemory::give_back_some() {
  return blocks_->give_back_some();
}

void JournalMemory::end_second() {
  blocks_->end_second();
}

std::uint64_t JournalMemory::lost() const {
  return blocks_->shortages();
}

std::size_t JournalMemory::bytes_in_use() const {
  return blocks_->in_use() * kBlockBytes;
}

}  // namespace phalanx::front
