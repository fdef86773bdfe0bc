// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/wire/bootstrap.h"
#include "phalanx/wire/rank_messages.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::wire {

// MessagePack, one array per struct in field order, preceded by a kind number where a variant is
// sent. Encoders cannot fail on values within limits.h. Decoders never throw, never allocate more
// than the frame's own size times a small constant, and answer kInvalidArgument naming the field,
// what was expected and what came.
//
// Threads: any; no state.
[[nodiscard]] std::string encode(const LeaderFrame& frame);
[[nodiscard]] std::string encode(const ReplicaFrame& frame);
[[nodiscard]] std::string encode(const RankCommand& command);
[[nodiscard]] std::string encode(const RankReply& reply);
[[nodiscard]] std::string encode(const ControlRecord& record);

[[nodiscard]] Result<LeaderFrame> decode_leader_frame(std::string_view bytes);
[[nodiscard]] Result<ReplicaFrame> decode_replica_frame(std::string_view bytes);
[[nodiscard]] Result<RankCommand> decode_rank_command(std::string_view bytes);
[[nodiscard]] Result<RankReply> decode_rank_reply(std::string_view bytes);
[[nodiscard]] Result<ControlRecord> decode_control_record(std::string_view bytes);

}  // namespace phalanx::wire
