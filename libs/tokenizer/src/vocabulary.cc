// SPDX-License-Identifier: Apache-2.0
#include "vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "phalanx/base/hash.h"
#include "phalanx/base/utf8.h"
#include "phalanx/tokenizer/tokenizer.h"

#include "byte_alphabet.h"

namespace phalanx::tokenizer {
namespace {

bool is_one_character(std::string_view text) {
  if (text.empty() || !is_valid_utf8(text)) {
    return false;
  }
  std::size_t end = 0;
  static_cast<void>(next_code_point(text, end));
  return end == text.size();
}

}  // namespace

std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t state = bytes.size() * 0x9E3779B97F4A7C15ULL;
  const char* next = bytes.data();
  std::size_t left = bytes.size();
  while (left > 0) {
    std::uint64_t word = 0;
    const std::size_t count = std::min<std::size_t>(left, sizeof word);
    std::memcpy(&word, next, count);
    state = mix64(state ^ word);
    next += count;
    left -= count;
  }
  return state;
}

std::uint64_t Vocabulary::pack(std::string_view bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), bytes.size());
  return word | (static_cast<std::uint64_t>(bytes.size()) << 56);
}

void Vocabulary::reserve(std::size_t tokens) {
  entries_.reserve(tokens);
  blob_.reserve(tokens * 8);
  rebuild(std::bit_ceil(std::max<std::size_t>(tokens, 64)));
}

// Makes both tables of this many slots.
void Vocabulary::rebuild(std::size_t slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  const std::vector<ShortSlot> old_short =
      std::exchange(short_slots_, std::vector<ShortSlot>(slots));
  linked_ = 0;
  short_linked_ = 0;
  for (const Slot& slot : old) {
    if (slot.id != kFree) {
      link(slot.id);
    }
  }
  for (const ShortSlot& slot : old_short) {
    if (slot.id != kFree) {
      link_short(slot.id);
    }
  }
}

// Keeps a quarter of each table free.
void Vocabulary::grow() {
  if ((std::max(linked_, short_linked_) + 1) * 4 > slots_.size() * 3) {
    rebuild(std::max<std::size_t>(slots_.size() * 2, 64));
  }
}

void Vocabulary::link(TokenId id) {
  if (bytes(id).size() <= kShortBytes) {
    link_short(id);
    return;
  }
  const std::uint64_t hash = hash_bytes(bytes(id));
  std::size_t at = hash & (slots_.size() - 1);
  while (slots_[at].id != kFree) {
    at = (at + 1) & (slots_.size() - 1);
  }
  slots_[at] = {static_cast<std::uint32_t>(hash >> 32), id};
  ++linked_;
}

void Vocabulary::link_short(TokenId id) {
  const std::uint64_t spelling = pack(bytes(id));
  std::size_t at = mix64(spelling) & (short_slots_.size() - 1);
  while (short_slots_[at].id != kFree) {
    at = (at + 1) & (short_slots_.size() - 1);
  }
  short_slots_[at] = {spelling, id};
  ++short_linked_;
}

std::optional<TokenId> Vocabulary::find_short(std::string_view text) const {
  const std::uint64_t spelling = pack(text);
  for (std::size_t at = mix64(spelling) & (short_slots_.size() - 1); short_slots_[at].id != kFree;
       at = (at + 1) & (short_slots_.size() - 1)) {
    if (short_slots_[at].spelling == spelling) {
      return short_slots_[at].id;
    }
  }
  return std::nullopt;
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  if (slots_.empty()) {
    return std::nullopt;
  }
  if (text.size() <= kShortBytes) {
    return find_short(text);
  }
  const std::uint64_t hash = hash_bytes(text);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t at = hash & (slots_.size() - 1); slots_[at].id != kFree;
       at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].tag == tag && bytes(slots_[at].id) == text) {
      return slots_[at].id;
    }
  }
  return std::nullopt;
}

Status Vocabulary::store(TokenId id, std::string_view text, Kind kind) {
  if (id < 0 || id > kMaxTokenId) {
    return invalid_argument("token \"" + std::string(text) + "\": expected an id from 0 to " +
                            std::to_string(kMaxTokenId) + ", found " + std::to_string(id));
  }
  if (Vocabulary::kind(id) != Kind::kAbsent) {
    return invalid_argument("id " + std::to_string(id) + " is given to \"" +
                            std::string(bytes(id)) + "\" and to \"" + std::string(text) + "\"");
  }
  if (static_cast<std::size_t>(id) >= entries_.size()) {
    entries_.resize(static_cast<std::size_t>(id) + 1);
  }
  entries_[static_cast<std::size_t>(id)] = {static_cast<std::uint32_t>(blob_.size()),
                                            static_cast<std::uint32_t>(text.size()),
                                            kind,
                                            kind == Kind::kModel};
  blob_.append(text);
  token_bytes_max_ = std::max(token_bytes_max_, text.size());
  return ok();
}

Status Vocabulary::insert(TokenId id, std::string_view text, bool findable) {
  if (findable && find(text).has_value()) {
    return invalid_argument("token \"" + std::string(text) + "\" stands twice in the vocabulary");
  }
  PHALANX_RETURN_IF_ERROR(store(id, text, Kind::kModel));
  if (findable) {
    grow();
    link(id);
  }
  return ok();
}

std::optional<TokenId> Vocabulary::find_spelled(std::string_view content) const {
  const std::optional<TokenId> found = find(content);
  if (!byte_alphabet_ || (found && !in_model(*found))) {
    return found;
  }
  const std::optional<std::string> bytes = bytes_of_spelling(content);
  return bytes ? find(*bytes) : std::nullopt;
}

Status Vocabulary::insert_added(TokenId id, std::string_view content, bool special) {
  const Kind added = special ? Kind::kSpecial : Kind::kAdded;
  const std::optional<TokenId> spelled = find_spelled(content);
  if (kind(id) == Kind::kAbsent) {
    if (spelled) {
      return invalid_argument("added token \"" + std::string(content) + "\": expected id " +
                              std::to_string(*spelled) + " as in the vocabulary, found " +
                              std::to_string(id));
    }
    PHALANX_RETURN_IF_ERROR(store(id, content, added));
    if (!find(content)) {
      grow();
      link(id);
    }
    return ok();
  }
  if (bytes(id) != content) {
    if (spelled == id) {
      return ok();
    }
    return invalid_argument("added token \"" + std::string(content) + "\": its id " +
                            std::to_string(id) + " stands for \"" + std::string(bytes(id)) +
                            "\" in the vocabulary");
  }
  Entry& entry = entries_[static_cast<std::size_t>(id)];
  entry.kind = entry.in_model && is_one_character(content) ? Kind::kAdded : added;
  return ok();
}

}  // namespace phalanx::tokenizer
