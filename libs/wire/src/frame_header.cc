// SPDX-License-Identifier: Apache-2.0
#include "phalanx/wire/frame_header.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "phalanx/wire/limits.h"

namespace phalanx::wire {

namespace {

static_assert(std::endian::native == std::endian::little, "headers are little-endian");

constexpr std::string_view kFrameMark = "PHX\n";

void append_word(std::string* bytes, std::size_t value) {
  const auto word = static_cast<std::uint32_t>(value);
  bytes->append(reinterpret_cast<const char*>(&word), sizeof word);
}

std::uint32_t word_at(std::string_view bytes, std::size_t offset) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof word);
  return word;
}

}  // namespace

std::string with_header(std::string_view frame) {
  std::string bytes(kFrameMark);
  bytes.reserve(kFrameHeaderBytes + frame.size());
  append_word(&bytes, kProtocolVersion);
  append_word(&bytes, frame.size());
  bytes += frame;
  return bytes;
}

bool begins_as_header(std::string_view bytes) {
  const std::string_view mark = bytes.substr(0, kFrameMark.size());
  return kFrameMark.starts_with(mark);
}

Result<std::size_t> frame_bytes_of(std::string_view header, std::size_t most) {
  if (header.size() != kFrameHeaderBytes || !begins_as_header(header)) {
    return invalid_argument("expected a frame of version " + std::to_string(kProtocolVersion) +
                            " of the protocol, came something else");
  }
  if (const std::uint32_t version = word_at(header, 4); version != kProtocolVersion) {
    return failed_precondition("expected a frame of version " + std::to_string(kProtocolVersion) +
                               " of the protocol, came one of version " + std::to_string(version));
  }
  const std::size_t bytes = word_at(header, 8);
  if (bytes > most) {
    return invalid_argument("expected a frame of at most " + std::to_string(most) +
                            " bytes, came one of " + std::to_string(bytes));
  }
  return bytes;
}

}  // namespace phalanx::wire
