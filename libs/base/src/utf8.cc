// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/utf8.h"

#include <cstdint>
#include <cstring>

namespace phalanx {
namespace {

// Length of the sequence a lead byte opens and the range of its second byte (Unicode table 3-7).
struct Lead {
  std::size_t bytes;  // 0: not a lead byte
  unsigned char second_min;
  unsigned char second_max;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) {
    return {1, 0, 0};
  }
  if (byte < 0xC2 || byte > 0xF4) {
    return {0, 0, 0};
  }
  if (byte < 0xE0) {
    return {2, 0x80, 0xBF};
  }
  if (byte < 0xF0) {
    return {3,
            static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
  }
  return {4,
          static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
          static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
}

unsigned char byte_at(std::string_view text, std::size_t position) {
  return static_cast<unsigned char>(text[position]);
}

}  // namespace

Utf8Unit next_utf8_unit(std::string_view rest) {
  const Lead lead = lead_of(byte_at(rest, 0));
  if (lead.bytes == 0) {
    return {Utf8Unit::Kind::kIllFormed, 1};
  }
  for (std::size_t i = 1; i < lead.bytes; ++i) {
    if (i == rest.size()) {
      return {Utf8Unit::Kind::kUnfinished, i};
    }
    const unsigned char low = i == 1 ? lead.second_min : 0x80;
    const unsigned char high = i == 1 ? lead.second_max : 0xBF;
    if (byte_at(rest, i) < low || byte_at(rest, i) > high) {
      return {Utf8Unit::Kind::kIllFormed, i};
    }
  }
  return {Utf8Unit::Kind::kCharacter, lead.bytes};
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    i += ascii_prefix(text.substr(i));
    if (i < text.size()) {
      const Utf8Unit unit = next_utf8_unit(text.substr(i));
      if (unit.kind != Utf8Unit::Kind::kCharacter) {
        return false;
      }
      i += unit.bytes;
    }
  }
  return true;
}

void append_replacing(std::string_view bytes, std::string& out) {
  std::size_t copied = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const Utf8Unit unit = next_utf8_unit(bytes.substr(i));
    if (unit.kind != Utf8Unit::Kind::kCharacter) {
      out.append(bytes, copied, i - copied);
      out.append(kReplacementCharacter);
      copied = i + unit.bytes;
    }
    i += unit.bytes;
  }
  out.append(bytes, copied);
}

char32_t next_code_point(std::string_view text, std::size_t& position) {
  const unsigned char first = byte_at(text, position++);
  if (first < 0x80) {
    return first;
  }
  const int more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  char32_t code_point = first & (0x3FU >> more);
  for (int i = 0; i < more && position < text.size(); ++i) {
    code_point = (code_point << 6) | (byte_at(text, position++) & 0x3FU);
  }
  return code_point;
}

char32_t previous_code_point(std::string_view text, std::size_t& position) {
  do {
    --position;
  } while (position > 0 && (byte_at(text, position) & 0xC0U) == 0x80U);
  std::size_t start = position;
  return next_code_point(text, start);
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto byte = [&out](char32_t value) { out.push_back(static_cast<char>(value)); };
  if (code_point < 0x80) {
    byte(code_point);
  } else if (code_point < 0x800) {
    byte(0xC0U | (code_point >> 6));
    byte(0x80U | (code_point & 0x3FU));
  } else if (code_point < 0x10000) {
    byte(0xE0U | (code_point >> 12));
    byte(0x80U | ((code_point >> 6) & 0x3FU));
    byte(0x80U | (code_point & 0x3FU));
  } else {
    byte(0xF0U | (code_point >> 18));
    byte(0x80U | ((code_point >> 12) & 0x3FU));
    byte(0x80U | ((code_point >> 6) & 0x3FU));
    byte(0x80U | (code_point & 0x3FU));
  }
}

std::string_view utf8_prefix(std::string_view text, std::size_t most) {
  constexpr std::size_t kMaxContinuations = 3;
  if (text.size() <= most) {
    return text;
  }
  std::size_t end = most;
  while (end > 0 && most - end < kMaxContinuations && (byte_at(text, end) & 0xC0U) == 0x80U) {
    --end;
  }
  return text.substr(0, end);
}

std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) {
    count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  }
  return count;
}

std::size_t ascii_prefix(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080U;
  std::size_t i = 0;
  for (; i + sizeof(std::uint64_t) <= text.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, sizeof word);
    if ((word & kHighBits) != 0) {
      break;
    }
  }
  while (i < text.size() && byte_at(text, i) < 0x80) {
    ++i;
  }
  return i;
}

bool is_white_space(char32_t code_point) {
  return (code_point >= 0x09 && code_point <= 0x0D) || code_point == 0x20 || code_point == 0x85 ||
         code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 ||
         code_point == 0x2029 || code_point == 0x202F || code_point == 0x205F ||
         code_point == 0x3000;
}

}  // namespace phalanx
