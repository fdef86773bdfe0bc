// SPDX-License-Identifier: Apache-2.0
#include "pre_tokenizer.h"

#include <optional>
#include <utility>

namespace phalanx::tokenizer {
namespace {

using Behavior = PreTokenizer::Behavior;

// Puts the parts of one piece together as a behaviour wants it.
class PieceBuilder {
 public:
  PieceBuilder(Behavior behavior, std::vector<ByteRange>& out)
      : behavior_(behavior), out_(out), first_(out.size()) {}

  void add(ByteRange part, bool is_match) {
    if (part.begin == part.end) {
      return;
    }
    switch (behavior_) {
      case Behavior::kIsolated:
        out_.push_back(part);
        break;
      case Behavior::kRemoved:
        if (!is_match) {
          out_.push_back(part);
        }
        break;
      case Behavior::kMergedWithPrevious:
        // A match joins the text before it, not another match.
        join_if(is_match && !last_was_match_, part);
        break;
      case Behavior::kMergedWithNext:
        join_if(!is_match && last_was_match_, part);
        break;
      case Behavior::kContiguous:
        join_if(is_match == last_was_match_, part);
        break;
    }
    last_was_match_ = is_match;
  }

 private:
  void join_if(bool join, ByteRange part) {
    if (join && out_.size() > first_) {
      out_.back().end = part.end;
    } else {
      out_.push_back(part);
    }
  }

  Behavior behavior_;
  std::vector<ByteRange>& out_;
  std::size_t first_;
  bool last_was_match_ = false;
};

void put_spaces_before(PreTokenizer::Pieces& pieces) {
  std::string changed;
  changed.reserve(pieces.text.size() + pieces.ranges.size());
  for (ByteRange& range : pieces.ranges) {
    const std::string_view piece = pieces.text.substr(range.begin, range.size());
    range.begin = changed.size();
    changed.append(piece.starts_with(' ') ? "" : " ").append(piece);
    range.end = changed.size();
  }
  pieces.changed = std::move(changed);
  pieces.text = pieces.changed;
}

}  // namespace

void PreTokenizer::add_stage(Regex pattern, Behavior behavior, bool inverted) {
  stages_.push_back({std::move(pattern), behavior, inverted});
}

Status PreTokenizer::run(const Stage& stage,
                         std::string_view text,
                         ByteRange piece,
                         std::vector<ByteRange>& out) {
  // The pattern sees the piece alone: a look-ahead ends where the piece ends.
  const std::string_view subject = text.substr(piece.begin, piece.size());
  PieceBuilder builder(stage.behavior, out);
  const auto add = [&](std::size_t begin, std::size_t end, bool is_match) {
    builder.add({piece.begin + begin, piece.begin + end}, is_match != stage.inverted);
  };
  std::size_t done = 0;
  while (done < subject.size()) {
    PHALANX_TRY(const std::optional<ByteRange> match, stage.pattern.find(subject, done));
    if (!match.has_value()) {
      break;
    }
    add(done, match->begin, false);
    add(match->begin, match->end, true);
    done = match->end;
  }
  add(done, subject.size(), false);
  return ok();
}

Status PreTokenizer::split(std::string_view text, Pieces& pieces) const {
  pieces.text = text;
  pieces.ranges.clear();
  if (!text.empty()) {
    pieces.ranges.push_back({0, text.size()});
  }
  for (std::size_t number = 0; number < stages_.size(); ++number) {
    if (number == prefix_space_before_) {
      put_spaces_before(pieces);
    }
    std::vector<ByteRange> next;
    next.reserve(pieces.ranges.size() + pieces.text.size() / 4);
    for (const ByteRange piece : pieces.ranges) {
      PHALANX_RETURN_IF_ERROR(run(stages_[number], pieces.text, piece, next));
    }
    pieces.ranges = std::move(next);
  }
  if (prefix_space_before_ == stages_.size()) {
    put_spaces_before(pieces);
  }
  return ok();
}

}  // namespace phalanx::tokenizer
