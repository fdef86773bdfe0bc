// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace phalanx::wire {

// Appends MessagePack objects, each in its shortest form, to a string.
class Packer {
 public:
  void nil();
  void boolean(bool value);
  void number(std::uint64_t value);
  void negative(std::int64_t value);
  void real(float value);
  void text(std::string_view value);
  void blob(std::string_view value);
  void array(std::size_t elements);

  // What was appended; leaves this empty.
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace phalanx::wire
