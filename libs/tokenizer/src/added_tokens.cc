// SPDX-License-Identifier: Apache-2.0
#include "added_tokens.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <utf8proc.h>

#include "phalanx/base/utf8.h"

#include "normalizer.h"

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

bool is_for_templates_only(const AddedToken& token) {
  if (token.special) {
    return true;
  }
  constexpr std::array<std::string_view, 2> kOpenings{"<|", "<\uFF5C"};
  constexpr std::array<std::string_view, 2> kClosings{"|>", "\uFF5C>"};
  // Of files and holes in them, which clients write and no turn begins with.
  constexpr std::array<std::string_view, 3> kOfFiles{"fim_", "repo_name", "file_sep"};
  const std::string spelling = without_space_marks(token.content);
  std::string_view text = spelling;
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));  // of a normalizer
  const auto enclosed = [&](std::string_view opening, std::string_view closing) {
    if (text.size() < opening.size() + closing.size() || !text.starts_with(opening) ||
        !text.ends_with(closing)) {
      return false;
    }
    const std::string_view name = text.substr(opening.size());
    return std::none_of(
        kOfFiles.begin(), kOfFiles.end(), [&](auto file) { return name.starts_with(file); });
  };
  return std::any_of(kOpenings.begin(), kOpenings.end(), [&](auto opening) {
    return std::any_of(kClosings.begin(), kClosings.end(), [&](auto closing) {
      return enclosed(opening, closing);
    });
  });
}

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  struct Growing {
    std::size_t token;
    std::uint32_t node;
  };
  std::vector<Growing> growing;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    growing.push_back({i, 0});
    last_bytes_.set(static_cast<unsigned char>(tokens_[i].content.back()));
  }
  // By their length, as extend() asks for.
  for (std::size_t length = 1; !growing.empty(); ++length) {
    for (Growing& end : growing) {
      const std::string& content = tokens_[end.token].content;
      end.node = extend(end.node, content[content.size() - length]);
      if (length == content.size()) {
        Node& whole = nodes_[end.node];
        whole.token = static_cast<std::int32_t>(end.token);
        whole.open =
            is_for_templates_only(tokens_[end.token]) ? nodes_[whole.beginning].open : end.node;
      }
    }
    std::erase_if(growing,
                  [&](const Growing& end) { return tokens_[end.token].content.size() == length; });
  }
}

// The node with `byte` before `node`. Requires that all shorter nodes are there.
std::uint32_t AddedTokenFinder::extend(std::uint32_t node, char byte) {
  const auto [edge, is_new] =
      edges_.try_emplace(edge_key(node, byte), static_cast<std::uint32_t>(nodes_.size()));
  if (is_new) {
    Node longer;
    longer.beginning = node == 0 ? 0 : step(nodes_[node].beginning, byte);
    const Node& beginning = nodes_[longer.beginning];
    longer.shorter = beginning.token >= 0 ? longer.beginning : beginning.shorter;
    longer.open = beginning.open;
    nodes_.push_back(longer);
  }
  return edge->second;
}

// The longest node that a text begins with which is `byte` and then what reached `node`.
std::uint32_t AddedTokenFinder::step(std::uint32_t node, char byte) const {
  for (;; node = nodes_[node].beginning) {
    const auto edge = edges_.find(edge_key(node, byte));
    if (edge != edges_.end()) {
      return edge->second;
    }
    if (node == 0) {
      return 0;
    }
  }
}

// Where tokens begin, the last place first.
std::vector<AddedTokenFinder::Place> AddedTokenFinder::places(std::string_view text) const {
  std::vector<Place> found;
  std::uint32_t node = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    if (node == 0 && !last_bytes_.test(static_cast<unsigned char>(text[at]))) {
      continue;
    }
    node = step(node, text[at]);
    const std::uint32_t longest = nodes_[node].token >= 0 ? node : nodes_[node].shorter;
    if (longest != 0) {
      found.push_back({static_cast<std::uint32_t>(at), longest});
    }
  }
  return found;
}

const AddedToken* AddedTokenFinder::match(const Place& place, const ByteRanges& opaque) const {
  const bool begins_opaque = opaque.overlaps({place.begin, place.begin + 1});
  std::uint32_t node = begins_opaque ? nodes_[place.node].open : place.node;
  for (; node != 0; node = nodes_[node].shorter) {
    const AddedToken& token = tokens_[static_cast<std::size_t>(nodes_[node].token)];
    if (nodes_[node].open == node ||
        !opaque.overlaps({place.begin, place.begin + token.content.size()})) {
      return &token;
    }
  }
  return nullptr;
}

std::vector<TextPart> AddedTokenFinder::split(std::string_view text,
                                              const ByteRanges& opaque,
                                              Spaces spaces) const {
  std::vector<TextPart> parts;
  std::size_t text_begin = 0;
  std::size_t position = 0;
  ByteRange space{0, 0};  // what was looked through last: many tokens may stand in it
  const std::vector<Place> found = places(text);
  for (auto place = found.rbegin(); place != found.rend(); ++place) {
    const AddedToken* const token = place->begin < position ? nullptr : match(*place, opaque);
    if (token == nullptr) {
      continue;
    }
    ByteRange range{place->begin, place->begin + token->content.size()};
    position = range.end;
    if (token->single_word && !stands_alone(text, range)) {
      continue;
    }
    if (token->lstrip) {
      range.begin = std::max(skip_space_left(text, range.begin, text_begin, spaces), text_begin);
    }
    if (token->rstrip) {
      if (range.end < space.begin || range.end > space.end) {
        space = {range.end, skip_space_right(text, range.end, spaces)};
      }
      range.end = space.end;
    }
    if (range.begin >= range.end) {
      continue;  // another one has taken it up whole
    }
    add_text({text_begin, range.begin}, parts);
    parts.push_back({token->id, range});
    text_begin = range.end;
  }
  add_text({text_begin, text.size()}, parts);
  return parts;
}

}  // namespace phalanx::tokenizer
