// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "asio.h"

namespace phalanx::http {

// Bytes waiting for a socket, in order. Small pieces are joined, large ones are never copied.
class OutputQueue {
 public:
  void push(std::string piece) {
    if (piece.empty()) {
      return;
    }
    bytes_ += piece.size();
    if (!pieces_.empty() && pieces_.back().size() + piece.size() <= kJoinBytes) {
      pieces_.back().append(piece);
    } else {
      pieces_.push_back(std::move(piece));
    }
  }

  // Writes as much as the socket takes now; tells how much that was. `error` is would_block if
  // something is left.
  std::size_t write_to(Tcp::socket& socket, SystemError& error) {
    std::size_t total = 0;
    error = {};
    while (!pieces_.empty() && !error) {
      std::array<asio::const_buffer, kPiecesPerWrite> buffers;
      std::size_t count = 0;
      for (; count < buffers.size() && count < pieces_.size(); ++count) {
        buffers[count] = asio::buffer(pieces_[count]);
      }
      buffers[0] += offset_;
      const std::size_t written = socket.write_some(Buffers{buffers.data(), count}, error);
      total += written;
      consume(written);
    }
    return total;
  }

  void clear() {
    pieces_.clear();
    bytes_ = 0;
    offset_ = 0;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_ == 0; }

 private:
  static constexpr std::size_t kJoinBytes = 4096;
  static constexpr std::size_t kPiecesPerWrite = 16;

  // A buffer sequence as Asio wants it.
  struct Buffers {
    const asio::const_buffer* first;
    std::size_t count;
    [[nodiscard]] const asio::const_buffer* begin() const { return first; }
    [[nodiscard]] const asio::const_buffer* end() const { return first + count; }
  };

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
