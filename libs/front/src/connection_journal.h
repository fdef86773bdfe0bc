// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/http/journal.h"

#include "journal_blocks.h"
#include "journal_layout.h"

namespace phalanx::front {

// The journal of one connection. What was published last stays whole until the next publication has
// taken its place: nothing that it names is written over, and blocks are freed behind it.
//
// Ownership: borrows blocks and record.
class ConnectionJournal final : public http::Journal {
 public:
  // Of the bytes up to these numbers none is kept. The record is nobody's.
  ConnectionJournal(JournalBlocks& blocks,
                    JournalRecord& record,
                    std::uint64_t connection,
                    std::uint64_t received,
                    std::uint64_t sent);
  ConnectionJournal(const ConnectionJournal&) = delete;
  ConnectionJournal& operator=(const ConnectionJournal&) = delete;
  ~ConnectionJournal() override;

  // http::Journal
  [[nodiscard]] std::span<char> room() override;
  void received(std::size_t bytes) override;
  void append(std::string_view bytes, std::uint64_t sent) override;
  void publish(const http::ConnectionState& state, std::uint64_t sent) override;
  [[nodiscard]] bool lost() const override { return lost_; }

  // Adds bytes that were received before, without a publication. Nothing has been published yet.
  void keep_received(std::string_view bytes);

 private:
  // The blocks of one direction, in order.
  struct Chain {
    std::vector<std::uint32_t> blocks;
    std::uint64_t at = 0;  // offset of the first byte of the first block

    // Blocks that hold nothing from `begin` on: all of them, if that is the end.
    [[nodiscard]] std::size_t blocks_before(std::uint64_t begin, std::uint64_t end) const;
    // As it is without its first blocks, for what begins there.
    [[nodiscard]] StoredChain without(std::size_t count, std::uint64_t begin) const;
  };

  [[nodiscard]] std::span<char> room_behind(Chain& chain, std::uint64_t end);
  void shorten(Chain& chain, std::size_t count, std::uint64_t begin);
  void show(const JournalSlot& slot);
  void show_first_room();
  void free_all();
  void lose();

  JournalBlocks& blocks_;
  JournalRecord& record_;
  std::uint64_t connection_;
  std::uint32_t published_ = 0;  // as in the record
  std::uint64_t received_;
  std::uint64_t out_end_;        // of all that was appended
  std::uint64_t published_end_;  // of what may be sent
  Chain in_;
  Chain out_;
  std::vector<std::uint32_t> old_out_;  // that is still published, and sent
  bool lost_ = false;
};

}  // namespace phalanx::front
