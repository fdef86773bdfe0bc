// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "phalanx/base/byte_ranges.h"

namespace phalanx::tokenizer {

// Whether `text` is in Unicode normalisation form C for sure: it consists of characters that
// never change or combine. False for some texts that are normalised.
[[nodiscard]] bool is_plainly_nfc(std::string_view text);

struct NormalizedText {
  std::string text;
  ByteRanges marked;
};

// Normalisation form C of valid UTF-8, in time linear in its length but for sorting runs of
// combining marks. The marked ranges, given as offsets into `text` plus `offset`, follow their
// text: a stretch of the result is marked if any byte it was made of is. Offsets of the result
// count from 0.
[[nodiscard]] NormalizedText normalize_nfc(std::string_view text,
                                           const ByteRanges& marked,
                                           std::size_t offset);

}  // namespace phalanx::tokenizer
