// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "phalanx/http/message.h"

namespace phalanx::http {

// Server-sent events as bytes. `data` may hold line ends; each line becomes a data field.

// "data: …\n\n"
[[nodiscard]] std::string sse_event(std::string data);

// ": text\n\n", which every client skips.
// Requires: `text` holds no line end.
[[nodiscard]] std::string sse_comment(std::string_view text);

// Content type, no caching, no buffering by proxies.
[[nodiscard]] Headers sse_headers();

}  // namespace phalanx::http
