// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "phalanx/tensor/shape.h"

namespace phalanx::tensor {

// Places aligned pieces one behind the other, without memory: offsets depend on the order and sizes
// of the pieces alone, so a plan holds in every process that maps the memory.
class ArenaPlan {
 public:
  // The offset of the next piece. Requires `alignment` a power of two.
  std::size_t add(std::size_t bytes, std::size_t alignment = kRowAlignment);

  template <typename T>
  std::size_t add_array(std::size_t count) {
    return add(count * sizeof(T));
  }

  [[nodiscard]] std::size_t bytes() const { return used_; }

 private:
  std::size_t used_ = 0;
};

// Zeroed heap memory, aligned as asked (a power of two ≥ 64).
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes, std::size_t alignment = kRowAlignment);

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_.get(), size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // The memory as elements of T, as many as fit.
  template <typename T>
  [[nodiscard]] std::span<T> as() const {
    return {reinterpret_cast<T*>(data_.get()), size_ / sizeof(T)};
  }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace phalanx::tensor
