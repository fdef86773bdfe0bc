// SPDX-License-Identifier: Apache-2.0
#include "nfc.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <utf8proc.h>

#include "phalanx/base/utf8.h"

namespace phalanx::tokenizer {
namespace {

// No character from here on decomposes or combines.
constexpr char32_t kTableEnd = 0x30000;
constexpr std::size_t kMaxDecomposition = 32;
constexpr std::size_t kCombiningClasses = 256;

// Combining marks that Unicode has gained since version 9. The tokenizers library normalises by the
// tables of that version, and so did whoever made a model's training data: they count as letters.
constexpr std::array<std::pair<char32_t, char32_t>, 37> kNewerMarks{{
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0xECE, 0xECE},
    {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
    {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
    {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF},
}};
// Of the same age: the only pair that composes, and what it composes to.
constexpr std::array<char32_t, 3> kNewerComposition{0x11935, 0x11930, 0x11938};

using CodePoints = std::vector<utf8proc_int32_t>;

std::span<const utf8proc_int32_t> decompose(char32_t code_point,
                                            std::array<utf8proc_int32_t, kMaxDecomposition>& out) {
  int boundary = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point),
                                             out.data(),
                                             static_cast<utf8proc_ssize_t>(out.size()),
                                             UTF8PROC_DECOMPOSE,
                                             &boundary);
  return {out.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

int combining_class(char32_t code_point) {
  const auto range = std::lower_bound(
      kNewerMarks.begin(), kNewerMarks.end(), code_point, [](const auto& marks, char32_t c) {
        return marks.second < c;
      });
  if (range != kNewerMarks.end() && range->first <= code_point) {
    return 0;
  }
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->combining_class;
}

int combining_class(utf8proc_int32_t code_point) {
  return combining_class(static_cast<char32_t>(code_point));
}

// What a character alone becomes: nearly always itself, but some are never composed again.
bool composes_again(std::span<const utf8proc_int32_t> decomposition, char32_t c) {
  std::array<utf8proc_int32_t, kMaxDecomposition> parts{};
  std::copy(decomposition.begin(), decomposition.end(), parts.begin());
  const auto composed =
      utf8proc_normalize_utf32(parts.data(),
                               static_cast<utf8proc_ssize_t>(decomposition.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  return composed == 1 && parts[0] == static_cast<utf8proc_int32_t>(c);
}

// Characters at which a text can be cut so that the parts normalise on their own, and that do not
// change themselves: combining class 0, normalised alone, never the later part of a composition.
class PlainCharacters {
 public:
  PlainCharacters() {
    std::array<utf8proc_int32_t, kMaxDecomposition> parts{};
    plain_.set();
    for (char32_t c = 0; c < kTableEnd; ++c) {
      const auto decomposition = decompose(c, parts);
      const bool itself =
          decomposition.size() == 1 && decomposition[0] == static_cast<utf8proc_int32_t>(c);
      if (combining_class(c) != 0 || !(itself || composes_again(decomposition, c))) {
        plain_.reset(c);
      }
      for (std::size_t i = 1; i < decomposition.size(); ++i) {
        plain_.reset(static_cast<std::size_t>(decomposition[i]));
      }
    }
    for (const char32_t c : kNewerComposition) {
      plain_.set(c);
    }
  }

  [[nodiscard]] bool contains(char32_t c) const { return c >= kTableEnd || plain_.test(c); }

 private:
  std::bitset<kTableEnd> plain_;
};

const PlainCharacters& plain_characters() {
  static const auto kCharacters = std::make_unique<const PlainCharacters>();
  return *kCharacters;
}

// Orders a run of combining marks by class, equal ones as they stood, in linear time.
void order_run(std::span<utf8proc_int32_t> marks, std::span<const std::uint8_t> classes) {
  thread_local CodePoints ordered;
  std::array<std::size_t, kCombiningClasses + 1> starts{};
  for (const std::uint8_t mark_class : classes) {
    ++starts[mark_class + 1U];
  }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  ordered.resize(marks.size());
  for (std::size_t i = 0; i < marks.size(); ++i) {
    ordered[starts[classes[i]]++] = marks[i];
  }
  std::copy(ordered.begin(), ordered.end(), marks.begin());
}

void order_marks(CodePoints& points) {
  thread_local std::vector<std::uint8_t> classes;
  classes.clear();
  for (const utf8proc_int32_t c : points) {
    classes.push_back(static_cast<std::uint8_t>(combining_class(c)));
  }
  for (std::size_t begin = 0; begin < points.size(); ++begin) {
    std::size_t end = begin;
    bool ordered = true;
    while (end < points.size() && classes[end] != 0) {
      ordered = ordered && (end == begin || classes[end - 1] <= classes[end]);
      ++end;
    }
    if (!ordered) {
      order_run(std::span(points).subspan(begin, end - begin),
                std::span(classes).subspan(begin, end - begin));
    }
    begin = end;
  }
}

// utf8proc's own ordering of combining marks is quadratic in their number, so only its
// decomposition of single characters and its composition are used.
void normalize_cluster(std::string_view cluster, CodePoints& points, std::string& out) {
  points.clear();
  std::array<utf8proc_int32_t, kMaxDecomposition> parts{};
  for (std::size_t i = 0; i < cluster.size();) {
    const auto decomposition = decompose(next_code_point(cluster, i), parts);
    points.insert(points.end(), decomposition.begin(), decomposition.end());
  }
  order_marks(points);
  const auto composed =
      utf8proc_normalize_utf32(points.data(),
                               static_cast<utf8proc_ssize_t>(points.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  for (utf8proc_ssize_t i = 0; i < composed; ++i) {
    append_utf8(static_cast<char32_t>(points[static_cast<std::size_t>(i)]), out);
  }
}

// Offset of the first character at or after `position` that is not plain.
std::size_t plain_end(std::string_view text, std::size_t position) {
  while (true) {
    position += ascii_prefix(text.substr(position));
    if (position == text.size()) {
      return position;
    }
    std::size_t next = position;
    if (!plain_characters().contains(next_code_point(text, next))) {
      return position;
    }
    position = next;
  }
}

std::size_t cluster_end(std::string_view text, std::size_t position) {
  while (position < text.size()) {
    std::size_t next = position;
    if (plain_characters().contains(next_code_point(text, next))) {
      return position;
    }
    position = next;
  }
  return position;
}

}  // namespace

bool is_plainly_nfc(std::string_view text) {
  return plain_end(text, 0) == text.size();
}

NormalizedText normalize_nfc(std::string_view text, const ByteRanges& marked, std::size_t offset) {
  NormalizedText result;
  result.text.reserve(text.size());
  CodePoints points;
  const auto mark = [&](ByteRange source, std::size_t begin) {
    if (marked.overlaps({offset + source.begin, offset + source.end})) {
      result.marked.append({begin, result.text.size()});
    }
  };
  // A stretch of plain characters is copied one marked or unmarked part at a time.
  const auto copy = [&](ByteRange source) {
    while (source.begin < source.end) {
      const std::size_t stop = marked.run_end(offset + source.begin, offset + source.end) - offset;
      const std::size_t begin = result.text.size();
      result.text.append(text.substr(source.begin, stop - source.begin));
      mark({source.begin, stop}, begin);
      source.begin = stop;
    }
  };
  for (std::size_t position = 0; position < text.size();) {
    std::size_t stop = plain_end(text, position);
    if (stop < text.size() && stop > position) {
      // The last plain character may take up what follows.
      static_cast<void>(previous_code_point(text, stop));
    }
    copy({position, stop});
    if (stop == text.size()) {
      break;
    }
    std::size_t behind_first = stop;
    static_cast<void>(next_code_point(text, behind_first));
    position = cluster_end(text, behind_first);
    const std::size_t begin = result.text.size();
    normalize_cluster(text.substr(stop, position - stop), points, result.text);
    mark({stop, position}, begin);
  }
  return result;
}

}  // namespace phalanx::tokenizer
