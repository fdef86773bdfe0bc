// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "phalanx/base/byte_ranges.h"
#include "phalanx/base/ids.h"

namespace phalanx::tokenizer {

// A token that is found in the text before anything else is done with it.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool normalized = true;    // looked for in the normalised text instead of the given one
  bool single_word = false;  // only where no letter or digit touches it
  bool lstrip = false;       // takes up white space on its left
  bool rstrip = false;       // takes up white space on its right

  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

// A part of a text: an added token, or text to be looked into further.
struct TextPart {
  std::optional<TokenId> token;
  ByteRange range;
};

// What a space of a text is: white space, or written for a mark of SentencePiece, which is none.
enum class Spaces : std::uint8_t { kWhite, kMarks };

// Finds added tokens in text: leftmost first, the longest of those that begin at one place.
class AddedTokenFinder {
 public:
  void add(AddedToken token);
  [[nodiscard]] bool empty() const { return tokens_.empty(); }

  // The parts of `text`, in order; text parts are never empty. A special token is not found where
  // it overlaps `opaque`. What a token takes up on its right is still looked into for others, but
  // for those that would take it up on their left: as by the `tokenizers` library.
  [[nodiscard]] std::vector<TextPart> split(std::string_view text,
                                            const ByteRanges& opaque,
                                            Spaces spaces = Spaces::kWhite) const;

 private:
  struct Node {
    std::int32_t token = -1;  // index into tokens_ of the token that ends here
  };
  struct Match {
    const AddedToken* token;
    std::size_t end;
  };

  [[nodiscard]] std::optional<Match> match_at(std::string_view text,
                                              std::size_t position,
                                              const ByteRanges& opaque) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{Node{}};
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // (node, byte) to node
  std::bitset<256> first_bytes_;
};

}  // namespace phalanx::tokenizer
