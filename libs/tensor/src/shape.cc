// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tensor/shape.h"

#include <limits>

namespace phalanx::tensor {

Shape::Shape(std::initializer_list<std::size_t> extents) {
  PHALANX_CHECK(extents.size() <= kMaxRank, "too many axes");
  for (const std::size_t extent : extents) {
    extents_[rank_++] = extent;
  }
}

std::optional<Shape> Shape::from(std::span<const std::uint64_t> extents) {
  if (extents.size() > kMaxRank) {
    return std::nullopt;
  }
  Shape shape;
  std::uint64_t product = 1;
  for (const std::uint64_t extent : extents) {
    if (extent != 0 && product > std::numeric_limits<std::uint64_t>::max() / extent) {
      return std::nullopt;
    }
    product *= extent;
    shape.extents_[shape.rank_++] = extent;
  }
  return shape;
}

std::size_t Shape::operator[](std::size_t axis) const {
  PHALANX_CHECK(axis < rank_, "axis out of range");
  return extents_[axis];
}

std::size_t Shape::elements() const {
  std::size_t product = 1;
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    product *= extents_[axis];
  }
  return product;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    text += (axis == 0 ? "" : ", ") + std::to_string(extents_[axis]);
  }
  return text + "]";
}

}  // namespace phalanx::tensor
