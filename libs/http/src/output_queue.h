// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/http/body.h"

#include "asio.h"

namespace phalanx::http {

// Bytes waiting for a socket, in order. Small pieces are joined, large ones are never copied.
class OutputQueue {
 public:
  // What one client gets in one turn of the loop: the kernel copies it in the call.
  static constexpr std::size_t kBytesPerTurn = std::size_t{32} << 10;

  void push(std::string piece) {
    if (piece.empty()) {
      return;
    }
    bytes_ += piece.size();
    if (!pieces_.empty() && pieces_.back().size() + piece.size() <= kJoinBytes) {
      pieces_.back().append(piece);
    } else {
      pieces_.push_back(std::move(piece));
      if (pieces_.back().size() < kSmallBytes) {
        pieces_.back().reserve(kSmallBytes);
      }
    }
  }
  void push(Body body) {
    for (std::string& piece : body.take_pieces()) {
      push(std::move(piece));
    }
  }

  // Writes as much as the socket takes now, and at most kBytesPerTurn; tells how much that was.
  // `error` is would_block if the socket takes no more.
  std::size_t write_to(Tcp::socket& socket, SystemError& error) {
    std::size_t total = 0;
    error = {};
    while (!pieces_.empty() && !error && total < kBytesPerTurn) {
      std::array<asio::const_buffer, kPiecesPerWrite> buffers;
      const std::size_t count = gather(buffers, kBytesPerTurn - total);
      // One buffer alone costs Asio and the kernel less.
      const std::size_t written = count == 1
                                      ? socket.write_some(buffers.front(), error)
                                      : socket.write_some(Buffers{buffers.data(), count}, error);
      total += written;
      consume(written);
    }
    return total;
  }

  // Shows `take` the pieces behind the first `offset` bytes, at most `limit` bytes of them; how
  // many that were.
  template <typename Take>
  [[nodiscard]] std::size_t show(std::size_t offset, std::size_t limit, Take take) const {
    std::size_t shown = 0;
    offset += offset_;
    for (const std::string& piece : pieces_) {
      if (offset >= piece.size()) {
        offset -= piece.size();
        continue;
      }
      const std::string_view part = std::string_view(piece).substr(offset).substr(0, limit - shown);
      offset = 0;
      take(part);
      shown += part.size();
      if (shown == limit) {
        break;
      }
    }
    return shown;
  }

  // What is left. Leaves nothing.
  [[nodiscard]] std::deque<std::string> take() {
    bytes_ = 0;
    offset_ = 0;
    return std::exchange(pieces_, {});
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_ == 0; }

 private:
  static constexpr std::size_t kJoinBytes = 4096;
  static constexpr std::size_t kSmallBytes = 512;  // others will join: a token's event, and more
  static constexpr std::size_t kPiecesPerWrite = 16;

  // A buffer sequence as Asio wants it.
  struct Buffers {
    const asio::const_buffer* first;
    std::size_t count;
    [[nodiscard]] const asio::const_buffer* begin() const { return first; }
    [[nodiscard]] const asio::const_buffer* end() const { return first + count; }
  };

  // The first `limit` bytes, or what fits into `buffers`; how many of these are used.
  template <typename Array>
  std::size_t gather(Array& buffers, std::size_t limit) const {
    std::size_t count = 0;
    std::size_t begin = offset_;
    for (; count < buffers.size() && count < pieces_.size() && limit > 0; ++count) {
      buffers[count] = asio::buffer(asio::buffer(pieces_[count]) + begin, limit);
      limit -= buffers[count].size();
      begin = 0;
    }
    return count;
  }

  void consume(std::size_t written) {
    bytes_ -= written;
    offset_ += written;
    while (!pieces_.empty() && offset_ >= pieces_.front().size()) {
      offset_ -= pieces_.front().size();
      pieces_.pop_front();
    }
  }

  std::deque<std::string> pieces_;
  std::size_t offset_ = 0;  // of the first piece, already written
  std::size_t bytes_ = 0;
};

}  // namespace phalanx::http
