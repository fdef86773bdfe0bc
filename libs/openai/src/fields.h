// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/json/value.h"
#include "phalanx/openai/api_error.h"
#include "phalanx/step/sampling_rules.h"

namespace phalanx::openai {

// Nothing, or why a request is refused.
using Refusal = std::optional<ApiError>;

inline constexpr std::size_t kMaxModelBytes = 256;
// Of a body, and of what it holds as JSON in a string: values take up to a hundred times the bytes
// that they are written with. The token ids of a body of 8 MiB are fewer.
inline constexpr std::size_t kMaxRequestValues = std::size_t{1} << 21;

// One member of a request and the name that messages use for it ("messages[2].role").
struct Field {
  std::string name;
  const json::Value& value;
};

struct IntRange {
  std::int64_t low = 0;
  std::int64_t high = std::numeric_limits<std::int32_t>::max();
};

// "NAME: expected EXPECTED, came VALUE"
[[nodiscard]] ApiError wrong(const Field& field, std::string_view expected);

// "NAME: not supported by this version: REASON"
[[nodiscard]] ApiError unsupported(const std::string& name, std::string_view reason);

// Each stores into `out` or says what is wrong. A real number is judged, and stored, as ranks will
// compute with it.
[[nodiscard]] Refusal read_bool(const Field& field, bool* out);
[[nodiscard]] Refusal read_text(const Field& field, std::string* out, std::size_t bytes_max);
[[nodiscard]] Refusal read_real(const Field& field,
                                const step::RealRule& rule,
                                std::optional<float>* out);
[[nodiscard]] Refusal read_int(const Field& field, IntRange range, std::int64_t* out);

// A list of token ids below `vocab_size`.
[[nodiscard]] Refusal read_tokens(const Field& field,
                                  TokenId vocab_size,
                                  std::size_t count_max,
                                  std::vector<TokenId>* out);

// An integer, also when written as 5.0 or 1e18. One that is not exact as a 64-bit real is the
// nearest that is.
[[nodiscard]] std::optional<std::int64_t> integer_of(const json::Value& value);

// "", [] or {}.
[[nodiscard]] bool is_empty(const json::Value& value);

// The top-level object of a request, or the answer to something else.
[[nodiscard]] ApiResult<json::Value> parse_object(std::string_view json);

// Adds a name to the list of ignored fields, which is bounded.
void note_ignored(const std::string& name, std::vector<std::string>* ignored);

}  // namespace phalanx::openai
