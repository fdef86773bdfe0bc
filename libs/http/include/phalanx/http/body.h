// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace phalanx::http {

// The bytes of a message in pieces of bounded size: a loop that takes, sends or drops a large one
// piece by piece never copies, allocates or gives back all of it at once.
class Body {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{128} << 10;

  Body() = default;
  // Implicit, as most bodies are one text. One above two pieces is cut, which copies it.
  Body(std::string text);                              // NOLINT(google-explicit-constructor)
  Body(const char* text) : Body(std::string(text)) {}  // NOLINT(google-explicit-constructor)

  void append(std::string_view bytes);

  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_ == 0; }

  [[nodiscard]] std::string text() const;

  // The text; of a large body each piece is given back when it is copied. Leaves nothing.
  [[nodiscard]] std::string take_text();

  // The pieces, in order, none of them empty. Leaves nothing.
  [[nodiscard]] std::deque<std::string> take_pieces();

  friend bool operator==(const Body& body, std::string_view text) { return body.text() == text; }

 private:
  std::deque<std::string> pieces_;
  std::size_t bytes_ = 0;
};

}  // namespace phalanx::http
