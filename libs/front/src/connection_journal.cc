// SPDX-License-Identifier: Apache-2.0
#include "connection_journal.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "phalanx/base/check.h"

namespace phalanx::front {

namespace {

StoredState stored_state(const http::ConnectionState& state) {
  const auto flag = [](bool value) { return static_cast<std::uint8_t>(value ? 1 : 0); };
  return {.stage = static_cast<std::uint8_t>(state.stage),
          .keep_alive = flag(state.keep_alive),
          .http_1_1 = flag(state.http_1_1),
          .chunked = flag(state.chunked),
          .is_sse = flag(state.is_sse),
          .head_only = flag(state.head_only),
          .continued = flag(state.continued),
          .in_body = flag(state.in_body),
          .ordinal = state.ordinal,
          .deadline_ms = state.deadline_ms,
          .request_begin = state.request_begin,
          .request_end = state.request_end,
          .drawn_id = state.drawn_id,
          .notes = state.notes};
}

}  // namespace

std::size_t ConnectionJournal::Chain::blocks_before(std::uint64_t begin, std::uint64_t end) const {
  return begin == end ? blocks.size() : (begin - at) / kPayloadBytes;
}

StoredChain ConnectionJournal::Chain::without(std::size_t count, std::uint64_t begin) const {
  return count == blocks.size()
             ? StoredChain{.at = begin}
             : StoredChain{.at = at + count * kPayloadBytes, .first = blocks[count]};
}

// The owner comes behind "nothing is published", and before the first publication: no state is ever
// taken for one of another connection.
ConnectionJournal::ConnectionJournal(JournalBlocks& blocks,
                                     JournalRecord& record,
                                     std::uint64_t connection,
                                     std::uint64_t received,
                                     std::uint64_t sent)
    : blocks_(blocks),
      record_(record),
      connection_(connection),
      received_(received),
      out_end_(sent),
      published_end_(sent) {
  in_.at = received;
  out_.at = sent;
  store_in_order<std::uint32_t>(record_.owner.published, 0);
  store_in_order(record_.owner.connection, connection);
}

ConnectionJournal::~ConnectionJournal() {
  store_in_order<std::uint32_t>(record_.owner.published, 0);
  store_in_order<std::uint64_t>(record_.owner.connection, 0);
  free_all();
}

std::span<char> ConnectionJournal::room() {
  if (lost_) {
    return {};
  }
  const bool shown = !in_.blocks.empty();
  const std::span<char> room = room_behind(in_, received_);
  if (!shown && !lost_) {
    show_first_room();
  }
  return room;
}

void ConnectionJournal::received(std::size_t bytes) {
  if (lost_) {
    return;
  }
  PHALANX_CHECK(bytes <= in_.at + in_.blocks.size() * kPayloadBytes - received_,
                "received beyond the room");
  received_ += bytes;
}

// When all was sent the bytes begin in a block of their own: what is published would otherwise
// grow by blocks of which only the last bytes are needed.
void ConnectionJournal::append(std::string_view bytes, std::uint64_t sent) {
  if (lost_ || bytes.empty()) {
    return;
  }
  PHALANX_CHECK(sent <= published_end_, "sent before it was published");
  if (sent == out_end_ && !out_.blocks.empty()) {
    std::swap(old_out_, out_.blocks);  // the former is empty: what was published last is `out_`
    out_.at = out_end_;
  }
  while (!bytes.empty() && !lost_) {
    const std::span<char> room = room_behind(out_, out_end_);
    const std::size_t count = std::min(room.size(), bytes.size());
    std::copy_n(bytes.data(), count, room.data());
    bytes.remove_prefix(count);
    out_end_ += count;
  }
}

void ConnectionJournal::publish(const http::ConnectionState& state, std::uint64_t sent) {
  if (lost_) {
    return;
  }
  PHALANX_CHECK(state.request_begin >= in_.at && state.request_begin <= received_,
                "a request begins outside of what is kept");
  PHALANX_CHECK(sent >= out_.at && sent <= out_end_, "sent what was not appended");
  const std::size_t in_count = in_.blocks_before(state.request_begin, received_);
  const std::size_t out_count = out_.blocks_before(sent, out_end_);
  show({.state = stored_state(state),
        .in = in_.without(in_count, state.request_begin),
        .out = out_.without(out_count, sent),
        .out_end = out_end_});
  published_end_ = out_end_;
  shorten(in_, in_count, state.request_begin);
  shorten(out_, out_count, sent);
  blocks_.free(old_out_);
  old_out_.clear();
}

void ConnectionJournal::keep_received(std::string_view bytes) {
  while (!bytes.empty() && !lost_) {
    const std::span<char> room = room_behind(in_, received_);
    const std::size_t count = std::min(room.size(), bytes.size());
    std::copy_n(bytes.data(), count, room.data());
    bytes.remove_prefix(count);
    received_ += count;
  }
}

// Of the chain's last block, or of a new one behind it; empty once memory is short.
std::span<char> ConnectionJournal::room_behind(Chain& chain, std::uint64_t end) {
  std::size_t used = end - chain.at;
  if (used == chain.blocks.size() * kPayloadBytes) {
    const std::uint32_t block = blocks_.take(connection_);
    if (block == 0) {
      lose();
      return {};
    }
    if (!chain.blocks.empty()) {
      blocks_.link(chain.blocks.back(), block);
    }
    chain.blocks.push_back(block);
  }
  used -= (chain.blocks.size() - 1) * kPayloadBytes;
  return {blocks_.payload(chain.blocks.back()) + used, kPayloadBytes - used};
}

// Behind a publication that names the blocks no longer.
void ConnectionJournal::shorten(Chain& chain, std::size_t count, std::uint64_t begin) {
  chain.at = chain.without(count, begin).at;
  blocks_.free(std::span(chain.blocks).first(count));
  chain.blocks.erase(chain.blocks.begin(),
                     chain.blocks.begin() + static_cast<std::ptrdiff_t>(count));
}

// The kernel writes into the first block before anybody publishes again, so the state that holds
// has to name it.
void ConnectionJournal::show_first_room() {
  JournalSlot slot;
  if (published_ != 0) {
    slot = record_.slots[published_ % 2];
  } else {
    slot.state = stored_state({.request_begin = received_});
    slot.out.at = published_end_;
    slot.out_end = published_end_;
  }
  slot.in = in_.without(0, received_);
  show(slot);
}

// The slot that does not hold is written; then it does.
void ConnectionJournal::show(const JournalSlot& slot) {
  // 0 is "nothing", and 1 would be the slot that holds when the number turns over.
  const std::uint32_t next = published_ + 1 == 0 ? 2 : published_ + 1;
  record_.slots[next % 2] = slot;
  store_in_order(record_.owner.published, next);
  published_ = next;
}

void ConnectionJournal::free_all() {
  for (std::vector<std::uint32_t>* const blocks : {&in_.blocks, &out_.blocks, &old_out_}) {
    blocks_.free(*blocks);
    blocks->clear();
  }
}

void ConnectionJournal::lose() {
  lost_ = true;
  store_in_order<std::uint32_t>(record_.owner.published, 0);
  free_all();
}

}  // namespace phalanx::front
