// SPDX-License-Identifier: Apache-2.0
// A safetensors file from anywhere: whatever the header says, every tensor that is accepted lies
// inside the file. The first byte chooses between a file as it is, and a header to which a true
// length prefix is put, so that the fuzzer need not guess it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "phalanx/checkpoint/safetensors.h"

namespace {

void check(std::span<const std::byte> file) {
  const auto directory = phalanx::checkpoint::parse_safetensors(file);
  if (!directory) {
    return;
  }
  std::size_t sum = 0;
  for (const auto& [name, entry] : *directory) {
    if (entry.offset > file.size() || entry.bytes > file.size() - entry.offset) {
      std::abort();
    }
    for (std::size_t i = 0; i < entry.bytes; i += 4096) {
      sum += static_cast<std::size_t>(file[entry.offset + i]);
    }
  }
  // Reading is the check: a sanitizer sees what lies outside.
  if (sum == static_cast<std::size_t>(-1)) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    check(rest);
    return 0;
  }
  constexpr std::size_t kDataBytes = 64;
  const std::uint64_t header_bytes = rest.size();
  std::vector<std::byte> file(sizeof(header_bytes) + rest.size() + kDataBytes);
  std::memcpy(file.data(), &header_bytes, sizeof(header_bytes));
  if (!rest.empty()) {
    std::memcpy(file.data() + sizeof(header_bytes), rest.data(), rest.size());
  }
  check(file);
  return 0;
}
