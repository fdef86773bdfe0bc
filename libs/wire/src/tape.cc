// SPDX-License-Identifier: Apache-2.0
#include "tape.h"

#include <string>

#include <msgpack.hpp>

#include "phalanx/wire/limits.h"

namespace phalanx::wire {
namespace {

// Bounds what the parser keeps for a frame: about 24 bytes for each object, and the largest valid
// frame has fewer.
constexpr std::size_t kMaxObjects = std::size_t{1} << 18;

class TapeVisitor : public msgpack::null_visitor {
 public:
  bool visit_nil() { return push({.kind = TapeItem::Kind::kNil, .size = 0, .number = 0}); }
  bool visit_boolean(bool value) {
    return push({.kind = TapeItem::Kind::kBoolean, .size = 0, .number = value ? 1U : 0U});
  }
  bool visit_positive_integer(std::uint64_t value) {
    return push({.kind = TapeItem::Kind::kUnsigned, .size = 0, .number = value});
  }
  bool visit_negative_integer(std::int64_t value) {
    return push({.kind = TapeItem::Kind::kNegative, .size = 0, .negative = value});
  }
  bool visit_float32(float value) {
    return push({.kind = TapeItem::Kind::kFloat32, .size = 0, .real = value});
  }
  bool visit_float64(double /*value*/) { return refuse("a double is no part of this protocol"); }
  bool visit_str(const char* bytes, std::uint32_t size) {
    return push({.kind = TapeItem::Kind::kText, .size = size, .bytes = bytes});
  }
  bool visit_bin(const char* bytes, std::uint32_t size) {
    return push({.kind = TapeItem::Kind::kBlob, .size = size, .bytes = bytes});
  }
  bool visit_ext(const char* /*bytes*/, std::uint32_t /*size*/) {
    return refuse("an extension object is no part of this protocol");
  }
  bool start_map(std::uint32_t /*pairs*/) { return refuse("a map is no part of this protocol"); }
  bool start_array(std::uint32_t elements) {
    if (++depth_ > kMaxDepth) {
      return refuse("arrays nested deeper than " + std::to_string(kMaxDepth));
    }
    if (elements > kMaxObjects - tape_.size()) {
      return refuse("an array claims " + std::to_string(elements) + " elements");
    }
    return push({.kind = TapeItem::Kind::kArray, .size = elements, .number = 0});
  }
  bool end_array() {
    --depth_;
    return true;
  }
  void parse_error(std::size_t /*parsed*/, std::size_t offset) {
    refuse("no MessagePack object at byte " + std::to_string(offset));
  }
  void insufficient_bytes(std::size_t /*parsed*/, std::size_t /*offset*/) {
    refuse("the frame ends inside an object");
  }

  [[nodiscard]] std::vector<TapeItem>& tape() { return tape_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  bool push(const TapeItem& item) {
    if (tape_.size() >= kMaxObjects) {
      return refuse("more than " + std::to_string(kMaxObjects) + " objects");
    }
    tape_.push_back(item);
    return true;
  }

  bool refuse(std::string problem) {
    if (problem_.empty()) {
      problem_ = std::move(problem);
    }
    return false;
  }

  std::vector<TapeItem> tape_;
  std::size_t depth_ = 0;
  std::string problem_;
};

}  // namespace

std::string_view kind_name(TapeItem::Kind kind) {
  switch (kind) {
    case TapeItem::Kind::kNil:
      return "nil";
    case TapeItem::Kind::kBoolean:
      return "a boolean";
    case TapeItem::Kind::kUnsigned:
    case TapeItem::Kind::kNegative:
      return "an integer";
    case TapeItem::Kind::kFloat32:
      return "a float";
    case TapeItem::Kind::kText:
      return "a string";
    case TapeItem::Kind::kBlob:
      return "a blob";
    case TapeItem::Kind::kArray:
      return "an array";
  }
  return "an object";
}

Result<std::vector<TapeItem>> read_tape(std::string_view frame) {
  if (frame.size() > kMaxFrameBytes) {
    return invalid_argument("the frame has " + std::to_string(frame.size()) + " bytes, at most " +
                            std::to_string(kMaxFrameBytes) + " are allowed");
  }
  TapeVisitor visitor;
  std::size_t offset = 0;
  bool complete = false;
  try {
    complete = msgpack::parse(frame.data(), frame.size(), offset, visitor);
  } catch (const msgpack::unpack_error& error) {
    return invalid_argument(std::string("not a MessagePack frame: ") + error.what());
  }
  if (!complete || !visitor.problem().empty()) {
    return invalid_argument(visitor.problem().empty() ? "the frame ends inside an object"
                                                      : visitor.problem());
  }
  if (offset != frame.size()) {
    return invalid_argument(std::to_string(frame.size() - offset) +
                            " bytes follow the end of the frame");
  }
  return std::move(visitor.tape());
}

}  // namespace phalanx::wire
