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

// Whether opaque text never has the token: special ones, and those that are spelled as models spell
// their turns, "<|user|>" and "<｜User｜>", which many files do not call special.
[[nodiscard]] bool is_for_templates_only(const AddedToken& token);

// A part of a text: an added token, or text to be looked into further.
struct TextPart {
  std::optional<TokenId> token;
  ByteRange range;
};

// What a space of a text is: white space, or written for a mark of SentencePiece, which is none.
enum class Spaces : std::uint8_t { kWhite, kMarks };

// Finds added tokens in text: leftmost first, the longest of those that begin at one place.
//
// Cost: a text takes time that grows no faster than it, whatever it and the tokens are.
class AddedTokenFinder {
 public:
  // Of two tokens of one content the later counts.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens = {});
  [[nodiscard]] bool empty() const { return tokens_.empty(); }

  // The parts of `text`, in order; text parts are never empty. A token that is for templates only
  // is not found where it overlaps `opaque`. What a token takes up on its right is still looked
  // into for others, but for those that would take it up on their left: as by the `tokenizers`
  // library.
  [[nodiscard]] std::vector<TextPart> split(std::string_view text,
                                            const ByteRanges& opaque,
                                            Spaces spaces = Spaces::kWhite) const;

 private:
  // The automaton of Aho and Corasick over the tokens, which reads a text from its end, so that at
  // each byte it knows the tokens that begin there. A node is the end of a token; 0 is empty.
  struct Node {
    std::int32_t token = -1;      // index into tokens_ of the token that this is all of
    std::uint32_t beginning = 0;  // the longest other node that this one begins with
    std::uint32_t shorter = 0;    // the longest other token that this one begins with; 0: none
    std::uint32_t open = 0;       // this token or a shorter one: the longest for opaque text
  };
  struct Place {
    std::uint32_t begin;  // there may be one for each byte of a text
    std::uint32_t node;   // the longest token that begins there
  };

  [[nodiscard]] std::uint32_t extend(std::uint32_t node, char byte);
  [[nodiscard]] std::uint32_t step(std::uint32_t node, char byte) const;
  [[nodiscard]] std::vector<Place> places(std::string_view text) const;
  [[nodiscard]] const AddedToken* match(const Place& place, const ByteRanges& opaque) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{Node{}};
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // (node, byte) to node
  std::bitset<256> last_bytes_;
};

}  // namespace phalanx::tokenizer
