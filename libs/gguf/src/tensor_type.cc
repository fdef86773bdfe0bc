// SPDX-License-Identifier: Apache-2.0
#include "phalanx/gguf/tensor_type.h"

#include <array>

#include "phalanx/base/check.h"

namespace phalanx::gguf {
namespace {

constexpr TypeTraits row(std::uint32_t number,
                         std::string_view name,
                         std::uint32_t block_elements,
                         std::uint32_t block_bytes,
                         bool decodable = false) {
  return {static_cast<TensorType>(number), name, block_elements, block_bytes, decodable};
}

// Numbers that are missing were taken back by the format.
constexpr std::array kTypes = {
    row(0, "F32", 1, 4, true),
    row(1, "F16", 1, 2, true),
    row(2, "Q4_0", 32, 18, true),
    row(3, "Q4_1", 32, 20, true),
    row(6, "Q5_0", 32, 22, true),
    row(7, "Q5_1", 32, 24, true),
    row(8, "Q8_0", 32, 34, true),
    row(9, "Q8_1", 32, 40),
    row(10, "Q2_K", 256, 84, true),
    row(11, "Q3_K", 256, 110, true),
    row(12, "Q4_K", 256, 144, true),
    row(13, "Q5_K", 256, 176, true),
    row(14, "Q6_K", 256, 210, true),
    row(15, "Q8_K", 256, 292),
    row(16, "IQ2_XXS", 256, 66, true),
    row(17, "IQ2_XS", 256, 74, true),
    row(18, "IQ3_XXS", 256, 98, true),
    row(19, "IQ1_S", 256, 50, true),
    row(20, "IQ4_NL", 32, 18, true),
    row(21, "IQ3_S", 256, 110, true),
    row(22, "IQ2_S", 256, 82, true),
    row(23, "IQ4_XS", 256, 136, true),
    row(24, "I8", 1, 1),
    row(25, "I16", 1, 2),
    row(26, "I32", 1, 4),
    row(27, "I64", 1, 8),
    row(28, "F64", 1, 8),
    row(29, "IQ1_M", 256, 56, true),
    row(30, "BF16", 1, 2, true),
    row(34, "TQ1_0", 256, 54, true),
    row(35, "TQ2_0", 256, 66, true),
    row(39, "MXFP4", 32, 17, true),
    row(40, "NVFP4", 64, 36, true),
    row(41, "Q1_0", 128, 18, true),
    row(42, "Q2_0", 64, 18, true),
};

}  // namespace

const TypeTraits* find_type(std::uint32_t number) {
  for (const TypeTraits& traits : kTypes) {
    if (static_cast<std::uint32_t>(traits.type) == number) {
      return &traits;
    }
  }
  return nullptr;
}

const TypeTraits& traits_of(TensorType type) {
  const TypeTraits* traits = find_type(static_cast<std::uint32_t>(type));
  PHALANX_CHECK(traits != nullptr, "a tensor type that the reader refuses");
  return *traits;
}

std::string decodable_types() {
  std::string names;
  for (const TypeTraits& traits : kTypes) {
    if (traits.decodable) {
      names += (names.empty() ? "" : ", ") + std::string(traits.name);
    }
  }
  return names;
}

}  // namespace phalanx::gguf
