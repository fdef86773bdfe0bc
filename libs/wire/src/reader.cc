// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

#include <utility>

#include "phalanx/wire/limits.h"

namespace phalanx::wire {
namespace {

std::string describe(const TapeItem& item) {
  switch (item.kind) {
    case TapeItem::Kind::kUnsigned:
      return std::to_string(item.number);
    case TapeItem::Kind::kNegative:
      return std::to_string(item.negative);
    case TapeItem::Kind::kFloat32:
      return std::to_string(item.real);
    case TapeItem::Kind::kText:
    case TapeItem::Kind::kBlob:
      return std::string(kind_name(item.kind)) + " of " + std::to_string(item.size) + " bytes";
    case TapeItem::Kind::kArray:
      return "an array of " + std::to_string(item.size);
    case TapeItem::Kind::kNil:
    case TapeItem::Kind::kBoolean:
      break;
  }
  return std::string(kind_name(item.kind));
}

template <typename Number>
std::string range(std::string_view what, Number low, Number high) {
  return std::string(what) + " from " + std::to_string(low) + " to " + std::to_string(high);
}

}  // namespace

TapeCursor::TapeCursor(std::string_view frame_name, const std::vector<TapeItem>& tape)
    : tape_(tape) {
  path_.reserve(2 * kMaxDepth);
  path_.push_back({.name = frame_name, .index = std::nullopt});
}

TapeCursor::Scope TapeCursor::enter(std::string_view name) {
  path_.push_back({.name = name, .index = std::nullopt});
  return Scope(*this);
}

void TapeCursor::refuse(std::string_view name, std::string_view expected, std::string_view came) {
  if (failed()) {
    return;
  }
  std::string path;
  const auto append = [&path](std::string_view part) {
    if (!part.empty()) {
      path += (path.empty() ? "" : ".") + std::string(part);
    }
  };
  for (const Level& level : path_) {
    append(level.name);
    if (level.index) {
      path += "[" + std::to_string(*level.index) + "]";
    }
  }
  append(name);
  std::string message = path + ": expected " + std::string(expected);
  if (!came.empty()) {
    message += ", came " + std::string(came);
  }
  error_ = invalid_argument(std::move(message));
}

const TapeItem* TapeCursor::next(std::string_view name, std::string_view expected) {
  if (failed()) {
    return nullptr;
  }
  if (position_ == tape_.size()) {
    refuse(name, expected, "the end of the frame");
    return nullptr;
  }
  return &tape_[position_++];
}

const TapeItem* TapeCursor::next(std::string_view name,
                                 TapeItem::Kind kind,
                                 std::string_view expected) {
  const TapeItem* item = next(name, expected);
  if (item != nullptr && item->kind != kind) {
    refuse(name, expected, describe(*item));
    return nullptr;
  }
  return item;
}

std::uint64_t TapeCursor::unsigned_number(std::string_view name,
                                          std::uint64_t low,
                                          std::uint64_t high) {
  const TapeItem* item = next(name, TapeItem::Kind::kUnsigned, "an unsigned integer");
  if (item == nullptr) {
    return low;
  }
  if (item->number < low || item->number > high) {
    refuse(name, range("an integer", low, high), describe(*item));
    return low;
  }
  return item->number;
}

std::int64_t TapeCursor::signed_number(std::string_view name, std::int64_t low, std::int64_t high) {
  const TapeItem* item = next(name, "an integer");
  if (item == nullptr) {
    return low;
  }
  const bool is_negative = item->kind == TapeItem::Kind::kNegative;
  const bool is_unsigned = item->kind == TapeItem::Kind::kUnsigned;
  const bool fits = (is_negative && item->negative >= low && item->negative <= high) ||
                    (is_unsigned && std::in_range<std::int64_t>(item->number) &&
                     static_cast<std::int64_t>(item->number) >= low &&
                     static_cast<std::int64_t>(item->number) <= high);
  if (!fits) {
    refuse(name, range("an integer", low, high), describe(*item));
    return low;
  }
  return is_negative ? item->negative : static_cast<std::int64_t>(item->number);
}

bool TapeCursor::boolean(std::string_view name) {
  const TapeItem* item = next(name, TapeItem::Kind::kBoolean, "a boolean");
  return item != nullptr && item->number != 0;
}

float TapeCursor::real(std::string_view name, float low, float high) {
  const TapeItem* item = next(name, TapeItem::Kind::kFloat32, "a float");
  if (item == nullptr) {
    return low;
  }
  if (!(item->real >= low && item->real <= high)) {  // false for NaN
    refuse(name, range("a float", low, high), describe(*item));
    return low;
  }
  return item->real;
}

std::optional<float> TapeCursor::optional_real(std::string_view name) {
  const TapeItem* item = next(name, "nil or a float");
  if (item == nullptr || item->kind == TapeItem::Kind::kNil) {
    return std::nullopt;
  }
  if (item->kind != TapeItem::Kind::kFloat32 || item->real != item->real) {
    refuse(name, "nil or a float", describe(*item));
    return std::nullopt;
  }
  return item->real;
}

std::string TapeCursor::text(std::string_view name, std::size_t most) {
  const TapeItem* item = next(name, TapeItem::Kind::kText, "a string");
  if (item == nullptr) {
    return {};
  }
  if (item->size > most) {
    refuse(name, "a string of at most " + std::to_string(most) + " bytes", describe(*item));
    return {};
  }
  return {item->bytes, item->size};
}

std::string_view TapeCursor::blob(std::string_view name, std::size_t record, std::size_t most) {
  const TapeItem* item = next(name, TapeItem::Kind::kBlob, "a blob");
  if (item == nullptr) {
    return {};
  }
  if (item->size % record != 0 || item->size / record > most) {
    refuse(name,
           "a blob of at most " + std::to_string(most) + " records of " + std::to_string(record) +
               " bytes",
           describe(*item));
    return {};
  }
  return {item->bytes, item->size};
}

void TapeCursor::array_of(std::size_t elements) {
  const TapeItem* item = next("", TapeItem::Kind::kArray, "an array");
  if (item != nullptr && item->size != elements) {
    refuse("", "an array of " + std::to_string(elements), describe(*item));
  }
}

std::size_t TapeCursor::array_up_to(std::size_t most) {
  const TapeItem* item = next("", TapeItem::Kind::kArray, "an array");
  if (item != nullptr && item->size > most) {
    refuse("", "an array of at most " + std::to_string(most), describe(*item));
    return 0;
  }
  return item == nullptr ? 0 : item->size;
}

}  // namespace phalanx::wire
