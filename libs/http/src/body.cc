// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/body.h"

#include <algorithm>
#include <utility>

namespace phalanx::http {

Body::Body(std::string text) : bytes_(text.size()) {
  if (text.empty()) {
    return;
  }
  if (text.size() <= 2 * kPieceBytes) {
    pieces_.push_back(std::move(text));
    return;
  }
  for (std::size_t begin = 0; begin < text.size(); begin += kPieceBytes) {
    pieces_.push_back(text.substr(begin, kPieceBytes));
  }
}

void Body::append(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (pieces_.empty()) {
      pieces_.emplace_back();
    } else if (pieces_.back().size() >= kPieceBytes) {
      // Who fills a piece is likely to fill the next one.
      pieces_.emplace_back().reserve(kPieceBytes);
    }
    std::string& last = pieces_.back();
    const std::size_t taken = std::min(bytes.size(), kPieceBytes - last.size());
    last.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
  }
}

std::string Body::text() const {
  std::string result;
  result.reserve(bytes_);
  for (const std::string& piece : pieces_) {
    result += piece;
  }
  return result;
}

std::string Body::take_text() {
  bytes_ = 0;
  std::deque<std::string> pieces = std::exchange(pieces_, {});
  if (pieces.empty()) {
    return {};
  }
  std::string result = std::move(pieces.front());
  pieces.pop_front();
  std::size_t left = 0;
  for (const std::string& piece : pieces) {
    left += piece.size();
  }
  result.reserve(result.size() + left);
  for (; !pieces.empty(); pieces.pop_front()) {
    result += pieces.front();
  }
  return result;
}

std::deque<std::string> Body::take_pieces() {
  bytes_ = 0;
  return std::exchange(pieces_, {});
}

}  // namespace phalanx::http
