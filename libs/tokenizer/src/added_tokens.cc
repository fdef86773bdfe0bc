// SPDX-License-Identifier: Apache-2.0
#include "added_tokens.h"

#include <algorithm>
#include <utility>

#include <utf8proc.h>

#include "phalanx/base/utf8.h"

namespace phalanx::tokenizer {
namespace {

std::uint64_t edge_key(std::uint32_t node, char byte) {
  return (static_cast<std::uint64_t>(node) << 8) | static_cast<unsigned char>(byte);
}

// Letters, marks, digits, connectors and joiners, as in the \w of Unicode's regular expressions.
bool is_word_character(char32_t c) {
  if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
      (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C ||
      c == 0x200D) {
    return true;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

bool stands_alone(std::string_view text, ByteRange range) {
  std::size_t before = range.begin;
  if (before > 0 && is_word_character(previous_code_point(text, before))) {
    return false;
  }
  std::size_t after = range.end;
  return after == text.size() || !is_word_character(next_code_point(text, after));
}

bool is_taken_up(char32_t c, Spaces spaces) {
  return is_white_space(c) && (c != ' ' || spaces == Spaces::kWhite);
}

std::size_t skip_space_left(std::string_view text,
                            std::size_t position,
                            std::size_t limit,
                            Spaces spaces) {
  while (position > limit) {
    std::size_t before = position;
    if (!is_taken_up(previous_code_point(text, before), spaces) || before < limit) {
      break;
    }
    position = before;
  }
  return position;
}

std::size_t skip_space_right(std::string_view text, std::size_t position, Spaces spaces) {
  while (position < text.size()) {
    std::size_t next = position;
    if (!is_taken_up(next_code_point(text, next), spaces)) {
      break;
    }
    position = next;
  }
  return position;
}

void add_text(ByteRange range, std::vector<TextPart>& parts) {
  if (range.begin < range.end) {
    parts.push_back({std::nullopt, range});
  }
}

}  // namespace

void AddedTokenFinder::add(AddedToken token) {
  first_bytes_.set(static_cast<unsigned char>(token.content.front()));
  std::uint32_t node = 0;
  for (const char byte : token.content) {
    const auto [edge, is_new] =
        edges_.try_emplace(edge_key(node, byte), static_cast<std::uint32_t>(nodes_.size()));
    if (is_new) {
      nodes_.emplace_back();
    }
    node = edge->second;
  }
  nodes_[node].token = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(std::move(token));
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::match_at(std::string_view text,
                                                                  std::size_t position,
                                                                  const ByteRanges& opaque) const {
  std::optional<Match> longest;
  std::uint32_t node = 0;
  for (std::size_t end = position; end < text.size();) {
    const auto edge = edges_.find(edge_key(node, text[end]));
    if (edge == edges_.end()) {
      break;
    }
    node = edge->second;
    ++end;
    if (nodes_[node].token < 0) {
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(nodes_[node].token)];
    if (!token.special || !opaque.overlaps({position, end})) {
      longest = Match{&token, end};
    }
  }
  return longest;
}

std::vector<TextPart> AddedTokenFinder::split(std::string_view text,
                                              const ByteRanges& opaque,
                                              Spaces spaces) const {
  std::vector<TextPart> parts;
  std::size_t text_begin = 0;
  std::size_t position = 0;
  ByteRange space{0, 0};  // what was looked through last: many tokens may stand in it
  while (position < text.size()) {
    if (!first_bytes_.test(static_cast<unsigned char>(text[position]))) {
      ++position;
      continue;
    }
    const std::optional<Match> match = match_at(text, position, opaque);
    if (!match.has_value()) {
      ++position;
      continue;
    }
    ByteRange range{position, match->end};
    position = match->end;
    if (match->token->single_word && !stands_alone(text, range)) {
      continue;
    }
    if (match->token->lstrip) {
      range.begin = std::max(skip_space_left(text, range.begin, text_begin, spaces), text_begin);
    }
    if (match->token->rstrip) {
      if (range.end < space.begin || range.end > space.end) {
        space = {range.end, skip_space_right(text, range.end, spaces)};
      }
      range.end = space.end;
    }
    if (range.begin >= range.end) {
      continue;  // another one has taken it up whole
    }
    add_text({text_begin, range.begin}, parts);
    parts.push_back({match->token->id, range});
    text_begin = range.end;
  }
  add_text({text_begin, text.size()}, parts);
  return parts;
}

}  // namespace phalanx::tokenizer
