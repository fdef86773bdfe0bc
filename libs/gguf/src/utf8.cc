// SPDX-License-Identifier: Apache-2.0
#include "utf8.h"

#include <cstddef>
#include <cstdint>

namespace phalanx::gguf {
namespace {

// What may follow a lead byte: how many bytes, and the range of the first of them.
struct Follow {
  std::size_t count = 0;
  std::uint8_t least = 0x80;
  std::uint8_t most = 0xBF;
};

bool follow_of(std::uint8_t lead, Follow& follow) {
  if (lead >= 0xC2 && lead <= 0xDF) {
    follow = {1};
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    follow = {2,
              static_cast<std::uint8_t>(lead == 0xE0 ? 0xA0 : 0x80),
              static_cast<std::uint8_t>(lead == 0xED ? 0x9F : 0xBF)};
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    follow = {3,
              static_cast<std::uint8_t>(lead == 0xF0 ? 0x90 : 0x80),
              static_cast<std::uint8_t>(lead == 0xF4 ? 0x8F : 0xBF)};
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool is_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto lead = static_cast<std::uint8_t>(text[at++]);
    if (lead < 0x80) {
      continue;
    }
    Follow follow;
    if (!follow_of(lead, follow) || text.size() - at < follow.count) {
      return false;
    }
    for (std::size_t i = 0; i < follow.count; ++i) {
      const auto byte = static_cast<std::uint8_t>(text[at++]);
      const bool inside =
          i == 0 ? byte >= follow.least && byte <= follow.most : byte >= 0x80 && byte <= 0xBF;
      if (!inside) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace phalanx::gguf
