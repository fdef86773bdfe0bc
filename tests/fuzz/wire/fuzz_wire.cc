// SPDX-License-Identifier: Apache-2.0
// Feeds the wire decoders: the first byte chooses one, the rest is the frame. A frame that is
// accepted must encode to something that decodes to the same value.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "phalanx/wire/codec.h"

namespace {

template <typename Decode>
void check(const Decode& decode, std::string_view bytes) {
  const auto first = decode(bytes);
  if (!first) {
    return;
  }
  const auto second = decode(phalanx::wire::encode(*first));
  if (!second || !(*second == *first)) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      check(phalanx::wire::decode_leader_frame, bytes);
      break;
    case 1:
      check(phalanx::wire::decode_replica_frame, bytes);
      break;
    case 2:
      check(phalanx::wire::decode_rank_command, bytes);
      break;
    case 3:
      check(phalanx::wire::decode_rank_reply, bytes);
      break;
    default:
      check(phalanx::wire::decode_control_record, bytes);
  }
  return 0;
}
