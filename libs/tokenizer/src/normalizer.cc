// SPDX-License-Identifier: Apache-2.0
#include "normalizer.h"

#include <algorithm>

namespace phalanx::tokenizer {
namespace {

NormalizedText replace_marks(const NormalizedText& source) {
  NormalizedText result;
  result.text.reserve(source.text.size());
  for (std::size_t at = 0; at < source.text.size();) {
    const std::size_t mark = std::min(source.text.find(kSpaceMark, at), source.text.size());
    // A stretch of plain characters is copied one marked or unmarked part at a time.
    while (at < mark) {
      const std::size_t stop = source.marked.run_end(at, mark);
      const std::size_t begin = result.text.size();
      result.text.append(source.text, at, stop - at);
      if (source.marked.overlaps({at, stop})) {
        result.marked.append({begin, result.text.size()});
      }
      at = stop;
    }
    if (mark < source.text.size()) {
      result.text.push_back(' ');
      if (source.marked.overlaps({mark, mark + kSpaceMark.size()})) {
        result.marked.append({result.text.size() - 1, result.text.size()});
      }
      at = mark + kSpaceMark.size();
    }
  }
  return result;
}

NormalizedText with_space_before(const NormalizedText& source) {
  NormalizedText result;
  result.text = " " + source.text;
  result.marked.append(source.marked, 1);
  return result;
}

}  // namespace

std::string without_space_marks(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t mark = std::min(text.find(kSpaceMark, at), text.size());
    result.append(text.substr(at, mark - at));
    if (mark < text.size()) {
      result.push_back(' ');
    }
    at = mark + (mark < text.size() ? kSpaceMark.size() : 0);
  }
  return result;
}

bool Normalizer::keeps(std::string_view text) const {
  return (!prepend_space || text.empty()) && (!nfc || is_plainly_nfc(text)) &&
         (!space_marks || text.find(kSpaceMark) == std::string_view::npos);
}

NormalizedText Normalizer::apply(std::string_view text,
                                 const ByteRanges& marked,
                                 std::size_t offset) const {
  NormalizedText result;
  if (nfc) {
    result = normalize_nfc(text, marked, offset);
  } else {
    result = {std::string(text), marked.within({offset, offset + text.size()})};
  }
  if (space_marks) {
    result = replace_marks(result);
  }
  return prepend_space && !result.text.empty() ? with_space_before(result) : result;
}

std::string Normalizer::apply(std::string_view text) const {
  return apply(text, {}, 0).text;
}

}  // namespace phalanx::tokenizer
