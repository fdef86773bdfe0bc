// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"

namespace phalanx::tokenizer {

// Hash of a short byte string, for tables in memory only.
[[nodiscard]] std::uint64_t hash_bytes(std::string_view bytes);

// The tokens by id, and the way back from bytes to id.
//
// Built single-threaded with insert*(), then read by any number of threads.
class Vocabulary {
 public:
  enum class Kind : std::uint8_t {
    kAbsent,   // no token has this id
    kModel,    // of the BPE vocabulary
    kAdded,    // added, not special
    kSpecial,  // added and special
  };

  // Room for `tokens` tokens, so that inserting them does not rebuild the table.
  void reserve(std::size_t tokens);

  // Puts a token of the BPE vocabulary; `text` may be any bytes. Two tokens of equal text are
  // possible when one is not spelled in the byte alphabet; `findable` says which of them find()
  // gives.
  //
  // Errors: kInvalidArgument  the id is out of bounds or taken, or the text is taken
  [[nodiscard]] Status insert(TokenId id, std::string_view text, bool findable);

  // From now on the BPE vocabulary counts as spelled in the byte alphabet (byte_alphabet.h). Added
  // tokens never are: one whose content has the bytes of a token of the BPE vocabulary may be
  // another token, which find() does not give.
  void use_byte_alphabet() { byte_alphabet_ = true; }

  // Makes `id` an added token of this content: a new one, or one that the vocabulary already has.
  // A character of the BPE vocabulary does not become special: any text may have it. Neither does a
  // token that is only spelled like the content; it keeps its bytes.
  //
  // Errors: kInvalidArgument  the id stands for something else
  [[nodiscard]] Status insert_added(TokenId id, std::string_view content, bool special);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t token_bytes_max() const { return token_bytes_max_; }

  [[nodiscard]] Kind kind(TokenId id) const {
    return is_inside(id) ? entries_[static_cast<std::size_t>(id)].kind : Kind::kAbsent;
  }
  [[nodiscard]] std::string_view bytes(TokenId id) const {
    if (!is_inside(id)) {
      return {};
    }
    const Entry& entry = entries_[static_cast<std::size_t>(id)];
    return std::string_view(blob_).substr(entry.offset, entry.length);
  }
  // Whether the BPE vocabulary has the token, be it an added one too.
  [[nodiscard]] bool in_model(TokenId id) const {
    return is_inside(id) && entries_[static_cast<std::size_t>(id)].in_model;
  }
  [[nodiscard]] std::optional<TokenId> find(std::string_view text) const;

 private:
  struct Entry {
    std::uint32_t offset = 0;  // into blob_
    std::uint32_t length = 0;
    Kind kind = Kind::kAbsent;
    bool in_model = false;
  };
  struct Slot {
    std::uint32_t tag = 0;  // upper half of the hash
    TokenId id = kFree;
  };
  struct ShortSlot {
    std::uint64_t spelling = 0;  // pack()
    TokenId id = kFree;
  };
  static constexpr TokenId kFree = -1;
  static constexpr std::size_t kShortBytes = 7;

  // Up to kShortBytes bytes and their number, in one word.
  [[nodiscard]] static std::uint64_t pack(std::string_view bytes);

  [[nodiscard]] bool is_inside(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < entries_.size();
  }
  [[nodiscard]] Status store(TokenId id, std::string_view text, Kind kind);
  // The token that a file spells like this content.
  [[nodiscard]] std::optional<TokenId> find_spelled(std::string_view content) const;
  [[nodiscard]] std::optional<TokenId> find_short(std::string_view text) const;
  void rebuild(std::size_t slots);
  void grow();
  void link(TokenId id);
  void link_short(TokenId id);

  std::string blob_;
  std::vector<Entry> entries_;  // by id
  // Open addressing; the number of slots is a power of two. Short tokens stand in a table of their
  // own that holds their bytes, so that one look into memory finds them.
  std::vector<Slot> slots_;
  std::vector<ShortSlot> short_slots_;
  std::size_t linked_ = 0;
  std::size_t short_linked_ = 0;
  std::size_t token_bytes_max_ = 0;
  bool byte_alphabet_ = false;
};

}  // namespace phalanx::tokenizer
