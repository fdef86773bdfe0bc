// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::wire {

// One MessagePack object. An array is followed by its elements.
struct TapeItem {
  enum class Kind : std::uint8_t {
    kNil,
    kBoolean,
    kUnsigned,
    kNegative,
    kFloat32,
    kText,
    kBlob,
    kArray
  };
  Kind kind = Kind::kNil;
  std::uint32_t size = 0;  // bytes of text and blob; elements of an array
  union {
    std::uint64_t number = 0;
    std::int64_t negative;
    float real;
    const char* bytes;  // into the frame
  };
};

// How an error message calls the kind: "an array".
[[nodiscard]] std::string_view kind_name(TapeItem::Kind kind);

// Reads a frame into a flat list of its objects. The list grows with what is there, never with what
// a length claims. Objects this protocol has no use for (maps, extensions, doubles) are refused, as
// are trailing bytes and anything beyond limits.h.
//
// Errors: kInvalidArgument
[[nodiscard]] Result<std::vector<TapeItem>> read_tape(std::string_view frame);

}  // namespace phalanx::wire
