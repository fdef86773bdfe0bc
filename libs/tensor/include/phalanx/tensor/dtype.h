// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace phalanx::tensor {

// Element types that a checkpoint or a buffer of ours may hold.
enum class Dtype : std::uint8_t { kBf16, kF16, kF32, kI32, kU32, kI64, kU64 };

[[nodiscard]] std::size_t dtype_bytes(Dtype dtype);

// The name in a safetensors header: "BF16", "F16", "F32", …
[[nodiscard]] std::string_view dtype_name(Dtype dtype);

// The dtype of a safetensors name; nothing for a name that is not in the list above.
[[nodiscard]] std::optional<Dtype> parse_dtype(std::string_view name);

}  // namespace phalanx::tensor
