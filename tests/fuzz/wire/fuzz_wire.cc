// SPDX-License-Identifier: Apache-2.0
// Feeds a frame to each of the wire decoders. One that is accepted must encode to something that
// decodes to the same value.
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
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check(phalanx::wire::decode_leader_frame, bytes);
  check(phalanx::wire::decode_replica_frame, bytes);
  check(phalanx::wire::decode_rank_command, bytes);
  check(phalanx::wire::decode_rank_reply, bytes);
  check(phalanx::wire::decode_control_record, bytes);
  check(phalanx::wire::decode_leader_to_front, bytes);
  check(phalanx::wire::decode_front_to_leader, bytes);
  check(phalanx::wire::decode_admin_request, bytes);
  check(phalanx::wire::decode_admin_answer, bytes);
  check(phalanx::wire::decode_poisoned_request, bytes);
  return 0;
}
