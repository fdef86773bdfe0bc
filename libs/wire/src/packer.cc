// SPDX-License-Identifier: Apache-2.0
#include "packer.h"

#include <bit>

#include <msgpack.hpp>

namespace phalanx::wire {
namespace {

struct StringSink {
  std::string& bytes;
  void write(const char* data, std::size_t size) { bytes.append(data, size); }
};

}  // namespace

void Packer::nil() {
  StringSink sink{bytes_};
  msgpack::packer(sink).pack_nil();
}

void Packer::boolean(bool value) {
  StringSink sink{bytes_};
  msgpack::packer packer(sink);
  value ? packer.pack_true() : packer.pack_false();
}

void Packer::number(std::uint64_t value) {
  StringSink sink{bytes_};
  msgpack::packer(sink).pack_uint64(value);
}

void Packer::negative(std::int64_t value) {
  StringSink sink{bytes_};
  msgpack::packer(sink).pack_int64(value);
}

void Packer::real(float value) {
  // By hand: msgpack's pack_float turns whole numbers into integers, and so loses the sign of -0.
  const auto bits = std::bit_cast<std::uint32_t>(value);
  bytes_.push_back('\xCA');
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes_.push_back(static_cast<char>(bits >> shift));
  }
}

void Packer::text(std::string_view value) {
  StringSink sink{bytes_};
  msgpack::packer packer(sink);
  const auto size = static_cast<std::uint32_t>(value.size());
  packer.pack_str(size).pack_str_body(value.data(), size);
}

void Packer::blob(std::string_view value) {
  StringSink sink{bytes_};
  msgpack::packer packer(sink);
  const auto size = static_cast<std::uint32_t>(value.size());
  packer.pack_bin(size).pack_bin_body(value.data(), size);
}

void Packer::array(std::size_t elements) {
  StringSink sink{bytes_};
  msgpack::packer(sink).pack_array(static_cast<std::uint32_t>(elements));
}

}  // namespace phalanx::wire
