// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tensor/dtype.h"

#include <array>

#include "phalanx/base/check.h"

namespace phalanx::tensor {

namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array kDtypes = {DtypeRow{Dtype::kBf16, "BF16", 2},
                                DtypeRow{Dtype::kF16, "F16", 2},
                                DtypeRow{Dtype::kF32, "F32", 4},
                                DtypeRow{Dtype::kI32, "I32", 4},
                                DtypeRow{Dtype::kU32, "U32", 4},
                                DtypeRow{Dtype::kI64, "I64", 8},
                                DtypeRow{Dtype::kU64, "U64", 8}};

const DtypeRow& row_of(Dtype dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  PHALANX_CHECK(index < kDtypes.size(), "not a dtype");
  return kDtypes[index];
}

}  // namespace

std::size_t dtype_bytes(Dtype dtype) {
  return row_of(dtype).bytes;
}

std::string_view dtype_name(Dtype dtype) {
  return row_of(dtype).name;
}

std::optional<Dtype> parse_dtype(std::string_view name) {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == name) {
      return row.dtype;
    }
  }
  return std::nullopt;
}

}  // namespace phalanx::tensor
