// SPDX-License-Identifier: Apache-2.0
#include "byte_alphabet.h"

#include <array>
#include <cstdint>

#include "phalanx/base/utf8.h"

namespace phalanx::tokenizer {
namespace {

constexpr char32_t kAlphabetEnd = 0x144;
constexpr std::int16_t kNoByte = -1;

struct Alphabet {
  std::array<char32_t, 256> spelling{};
  std::array<std::int16_t, kAlphabetEnd> byte{};
};

constexpr bool spells_itself(unsigned value) {
  return (value >= 0x21 && value <= 0x7E) || (value >= 0xA1 && value <= 0xAC) ||
         (value >= 0xAE && value <= 0xFF);
}

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte) {
    byte = kNoByte;
  }
  char32_t next = 0x100;
  for (unsigned value = 0; value < 256; ++value) {
    const char32_t code_point = spells_itself(value) ? value : next++;
    alphabet.spelling[value] = code_point;
    alphabet.byte[code_point] = static_cast<std::int16_t>(value);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  bytes.reserve(spelling.size());
  for (std::size_t i = 0; i < spelling.size();) {
    const char32_t code_point = next_code_point(spelling, i);
    if (code_point >= kAlphabetEnd || kAlphabet.byte[code_point] == kNoByte) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kAlphabet.byte[code_point]));
  }
  return bytes;
}

}  // namespace phalanx::tokenizer
