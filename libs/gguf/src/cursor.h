// SPDX-License-Identifier: Apache-2.0
// Takes numbers and strings from the front of bytes that may end or lie at any place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "phalanx/base/result.h"

#include "numbers.h"

namespace phalanx::gguf {

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::size_t position() const { return at_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }

  // Errors of all: kDataLoss  the bytes end too early; the message says what was being read.
  [[nodiscard]] Result<std::span<const std::byte>> take(std::uint64_t count, const char* what) {
    if (count > left()) {
      return data_loss("expected " + std::to_string(count) + " bytes of " + what + ", found " +
                       std::to_string(left()) +
                       " before the end: truncated, or a length that lies");
    }
    const auto taken = bytes_.subspan(at_, static_cast<std::size_t>(count));
    at_ += taken.size();
    return taken;
  }

  template <typename T>
  [[nodiscard]] Result<T> number(const char* what) {
    PHALANX_TRY(const std::span<const std::byte> bytes, take(sizeof(T), what));
    return load<T>(bytes.data());
  }

  // A length and that many bytes.
  [[nodiscard]] Result<std::span<const std::byte>> sized(const char* what) {
    PHALANX_TRY(const std::uint64_t length, number<std::uint64_t>("a length"));
    return take(length, what);
  }

  // A count of things of at least `least_bytes` each, of which as many must be able to follow.
  [[nodiscard]] Result<std::uint64_t> count(std::size_t least_bytes, const char* what) {
    PHALANX_TRY(const std::uint64_t value, number<std::uint64_t>("a count"));
    return fits(value, least_bytes, what);
  }

  [[nodiscard]] Result<std::uint64_t> fits(std::uint64_t value,
                                           std::size_t least_bytes,
                                           const char* what) const {
    const std::size_t most = left() / least_bytes;
    if (value > most) {
      return data_loss(std::string("expected at most ") + std::to_string(most) + " " + what +
                       ", which is all that the " + std::to_string(left()) +
                       " bytes left can hold, found a count of " + std::to_string(value));
    }
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace phalanx::gguf
