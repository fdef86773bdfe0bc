// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/wire/admin_messages.h"
#include "phalanx/wire/bootstrap.h"
#include "phalanx/wire/front_messages.h"
#include "phalanx/wire/poisoned_request.h"
#include "phalanx/wire/rank_messages.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::wire {

// MessagePack, one array per struct in field order, preceded by a kind number where a variant is
// sent. Encoders cannot fail on messages that check() accepts. Decoders never throw, never allocate
// more than the frame's own size times a small constant, and answer kInvalidArgument naming the
// field, what was expected and what came.
//
// Threads: any; no state.
[[nodiscard]] std::string encode(const LeaderFrame& frame);
[[nodiscard]] std::string encode(const ReplicaFrame& frame);
[[nodiscard]] std::string encode(const RankCommand& command);
[[nodiscard]] std::string encode(const RankReply& reply);
[[nodiscard]] std::string encode(const ControlRecord& record);
[[nodiscard]] std::string encode(const LeaderToFront& record);
[[nodiscard]] std::string encode(const FrontToLeader& record);
[[nodiscard]] std::string encode(const AdminRequest& request);
[[nodiscard]] std::string encode(const AdminAnswer& answer);
[[nodiscard]] std::string encode(const PoisonedRequest& request);

// Would the decoder of the other side accept this? kInvalidArgument naming the field, what is
// expected and what it holds. For whoever puts into a frame what came from elsewhere.
[[nodiscard]] Status check(const LeaderFrame& frame);
[[nodiscard]] Status check(const ReplicaFrame& frame);
[[nodiscard]] Status check(const RankCommand& command);
[[nodiscard]] Status check(const RankReply& reply);
[[nodiscard]] Status check(const ControlRecord& record);
[[nodiscard]] Status check(const LeaderToFront& record);
[[nodiscard]] Status check(const FrontToLeader& record);
[[nodiscard]] Status check(const AdminRequest& request);
[[nodiscard]] Status check(const AdminAnswer& answer);
[[nodiscard]] Status check(const PoisonedRequest& request);
[[nodiscard]] Status check(const step::SamplingParams& sampling);
[[nodiscard]] Status check(const step::StopParams& stop);

[[nodiscard]] Result<LeaderFrame> decode_leader_frame(std::string_view bytes);
[[nodiscard]] Result<ReplicaFrame> decode_replica_frame(std::string_view bytes);
[[nodiscard]] Result<RankCommand> decode_rank_command(std::string_view bytes);
[[nodiscard]] Result<RankReply> decode_rank_reply(std::string_view bytes);
[[nodiscard]] Result<ControlRecord> decode_control_record(std::string_view bytes);
[[nodiscard]] Result<LeaderToFront> decode_leader_to_front(std::string_view bytes);
[[nodiscard]] Result<FrontToLeader> decode_front_to_leader(std::string_view bytes);
[[nodiscard]] Result<AdminRequest> decode_admin_request(std::string_view bytes);
[[nodiscard]] Result<AdminAnswer> decode_admin_answer(std::string_view bytes);
[[nodiscard]] Result<PoisonedRequest> decode_poisoned_request(std::string_view bytes);

// For a leader frame that does not decode: whose it was, if it is a Submit whose key can be read.
// Every submitted key gets an end, also one whose frame is refused.
struct RefusedSubmit {
  Boot boot{};
  Incarnation incarnation{};
  SequenceKey key{};
};
[[nodiscard]] std::optional<RefusedSubmit> read_refused_submit(std::string_view bytes);

// For a replica frame that does not decode: a TokenBatch in which every update that cannot be read
// has become an error that ends its key (kDataLoss), so that one bad update costs one sequence. The
// error of the decoder if it is no such frame, or an update has no readable key.
struct SalvagedBatch {
  ReplicaFrame frame{};
  std::vector<SequenceKey> refused{};  // the replica may still be running them
};
[[nodiscard]] Result<SalvagedBatch> salvage_token_batch(std::string_view bytes);

}  // namespace phalanx::wire
