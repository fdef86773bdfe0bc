// SPDX-License-Identifier: Apache-2.0
// What stands before a frame that another program may read than the one that belongs to its writer:
// the admin socket, and files. It is the same in every version of the protocol.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "phalanx/base/result.h"

namespace phalanx::wire {

// "PHX\n", the version of the protocol, the bytes of the frame: 32 bits each, little-endian. The
// line end lets a reader of lines answer at once.
inline constexpr std::size_t kFrameHeaderBytes = 12;

// The frame of this version, behind its header.
[[nodiscard]] std::string with_header(std::string_view frame);

// Could this be the beginning of a header? For at least one byte; of the first kFrameHeaderBytes
// only the mark is looked at.
[[nodiscard]] bool begins_as_header(std::string_view bytes);

// The bytes of the frame behind a header, which is kFrameHeaderBytes long.
// Errors: kInvalidArgument if it is none, or the frame is longer than `most`; kFailedPrecondition
// with both versions if it is of another version.
[[nodiscard]] Result<std::size_t> frame_bytes_of(std::string_view header, std::size_t most);

}  // namespace phalanx::wire
