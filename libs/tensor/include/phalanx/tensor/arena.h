// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/tensor/shape.h"

namespace phalanx::tensor {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// Hands out aligned pieces of memory that somebody else owns, first to last, and never takes one
// back. Two arenas that are asked for the same pieces in the same order place them at the same
// offsets, so a plan made by ArenaPlan holds in every process that maps the memory.
//
// Ownership: none; the memory must outlive the arena and the pieces.
// Threads:   one at a time.
class Arena {
 public:
  // Requires memory.data() aligned to kRowAlignment.
  explicit Arena(std::span<std::byte> memory);

  // Errors: kResourceExhausted  naming `what`, the bytes asked for and the bytes left.
  [[nodiscard]] Result<std::span<std::byte>> allocate(std::size_t bytes,
                                                      std::string_view what,
                                                      std::size_t alignment = kRowAlignment);

  // `count` elements of T, 64-byte aligned; not initialised.
  template <typename T>
  [[nodiscard]] Result<std::span<T>> allocate_array(std::size_t count, std::string_view what) {
    PHALANX_TRY(const std::span<std::byte> bytes, allocate(count * sizeof(T), what));
    return std::span<T>(reinterpret_cast<T*>(bytes.data()), count);
  }

  // A matrix whose rows are all 64-byte aligned.
  template <typename T>
  [[nodiscard]] Result<MatrixView<T>> allocate_matrix(std::size_t rows,
                                                      std::size_t columns,
                                                      std::string_view what) {
    const std::size_t stride = aligned_stride<T>(columns);
    PHALANX_TRY(const std::span<T> data, allocate_array<T>(rows * stride, what));
    return MatrixView<T>{data.data(), rows, columns, stride};
  }

  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] std::size_t capacity() const { return memory_.size(); }

 private:
  std::span<std::byte> memory_;
  std::size_t used_ = 0;
};

// Counts the bytes that an arena would need, without memory.
class ArenaPlan {
 public:
  // Returns the offset that Arena::allocate() would give the piece.
  std::size_t add(std::size_t bytes, std::size_t alignment = kRowAlignment);

  template <typename T>
  std::size_t add_array(std::size_t count) {
    return add(count * sizeof(T));
  }
  template <typename T>
  std::size_t add_matrix(std::size_t rows, std::size_t columns) {
    return add_array<T>(rows * aligned_stride<T>(columns));
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
