// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/collective_step.h"

#include <algorithm>
#include <string>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/wire/error_text.h"

#include "mutation.h"

namespace phalanx::engine {
namespace {

Error error_of(const wire::RankReply& reply) {
  return wire::error_of(reply.code, reply.message.empty() ? "no message" : reply.message);
}

}  // namespace

CollectiveStep::CollectiveStep(RankPort& port,
                               const StepIdentity& identity,
                               std::string frame,
                               std::uint32_t ranks,
                               const StepLimits& limits,
                               SteadyTime now)
    : port_(port),
      identity_(identity),
      frame_(std::move(frame)),
      limits_(limits),
      started_(now),
      peers_(ranks) {
  fan_out();
}

CollectiveStep::~CollectiveStep() {
  if (done()) {
    return;
  }
  port_.raise_abort();
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    if (owes(peers_[i])) {
      port_.kill(RankId(i));
    }
  }
}

void CollectiveStep::fan_out() {
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    if (!try_send(RankId(i))) {
      return;
    }
  }
}

bool CollectiveStep::try_send(RankId rank) {
  Peer& peer = peers_[rank.value()];
  const bool first = peer.state == State::kNotSent;
  const wire::Sent sent = port_.send(rank, frame_);
  if (first) {
    ++owing_;
  }
  peer.state = sent == wire::Sent::kQueued ? State::kSent : State::kBlocked;
  if (sent == wire::Sent::kClosed) {
    kill(rank, unavailable("its link is closed"));
    return false;
  }
  return true;
}

bool CollectiveStep::on_reply(RankId rank, const wire::RankReply& reply, SteadyTime now) {
  Peer& peer = peers_[rank.value()];
  const bool current = kMutation == Mutation::kNoIdentityCheck
                           ? reply.op == identity_.op
                           : StepIdentity{reply.epoch, reply.step, reply.op} == identity_;
  if (!current || peer.state != State::kSent) {
    return false;
  }
  peer.reply = reply;
  peer.took = now - started_;
  record_outcome(rank, State::kReplied);
  if (reply.rank != rank) {
    blame(rank,
          RankFailure::Kind::kReply,
          data_loss("it answered as rank " + std::to_string(reply.rank.value())));
  } else if (reply.code != 0) {
    blame(rank, RankFailure::Kind::kReply, error_of(reply));
  }
  return true;
}

void CollectiveStep::on_death(RankId rank, const RankDeath& death) {
  if (!owes(peers_[rank.value()])) {
    return;
  }
  record_outcome(rank, State::kDead);
  blame(rank, RankFailure::Kind::kDeath, error_of(death, "it died"));
}

void CollectiveStep::on_writable(RankId rank) {
  if (peers_[rank.value()].state == State::kBlocked && !aborting_) {
    static_cast<void>(try_send(rank));
  }
}

void CollectiveStep::on_tick(const ProgressTick& tick) {
  bool blocked = false;
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    on_writable(RankId(i));
    blocked = blocked || peers_[i].state == State::kBlocked;
  }
  const bool moved = has_moved(tick);
  if (moved && !aborting_) {
    quiet_ticks_ = 0;  // whether or not the tick counts: it is not those who move that are late
  }
  if (done() || !tick.counted) {
    return;
  }
  if (aborting_) {
    if (++grace_ticks_ >= limits_.grace_ticks) {
      kill_owing(deadline_exceeded(std::string(hung_ ? "it made no progress and " : "it ") +
                                   "did not answer the abort; killed"));
    }
    return;
  }
  blocked_ticks_ = blocked ? blocked_ticks_ + 1 : 0;
  if (blocked_ticks_ >= limits_.send_ticks) {
    for (std::uint32_t i = 0; i < peers_.size(); ++i) {
      if (peers_[i].state == State::kBlocked) {
        kill(RankId(i), unavailable("it takes no command; killed"));
      }
    }
    return;
  }
  count_quiet_tick(moved);
}

bool CollectiveStep::has_moved(const ProgressTick& tick) const {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    // A rank that has not been reached has nothing to make progress with.
    if (peers_[i].state == State::kBlocked ||
        (peers_[i].state == State::kSent && tick.moved[i] != 0)) {
      return true;
    }
  }
  return false;
}

void CollectiveStep::count_quiet_tick(bool moved) {
  quiet_ticks_ += moved ? 0 : 1;
  longest_gap_ = std::max(longest_gap_, quiet_ticks_);
  if (kMutation != Mutation::kNoProgressDeadline && quiet_ticks_ >= limits_.hung_ticks) {
    failed_ = true;
    hung_ = true;
    abort();
  }
}

void CollectiveStep::fail_own(Error error) {
  if (!own_) {
    own_ = std::move(error);
  }
  failed_ = true;
  abort();
}

bool CollectiveStep::suspect(RankId rank, Error error) {
  Peer& peer = peers_[rank.value()];
  if (!owes(peer)) {
    return false;
  }
  if (!peer.suspicion) {
    peer.suspicion = std::move(error);
    failed_ = true;
    abort();
  }
  return true;
}

void CollectiveStep::verify_state(std::uint64_t expected) {
  PHALANX_CHECK(done() && ok(), "only a step that succeeded has a state to verify");
  if (kMutation == Mutation::kNoHashCheck) {
    return;
  }
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].reply.state_hash != expected) {
      blame(RankId(i),
            RankFailure::Kind::kDiverged,
            data_loss("its state differs from what the step must have made of it"));
    }
  }
}

bool CollectiveStep::reached_all() const {
  return std::none_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.state == State::kBlocked || peer.state == State::kNotSent;
  });
}

bool CollectiveStep::ok() const {
  return !failed_ && std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.state == State::kReplied;
  });
}

StepFault CollectiveStep::fault() const {
  PHALANX_CHECK(done() && !ok(), "only a failed step has a fault");
  StepFault fault;
  fault.own = own_;
  fault.hung = hung_;
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    const Peer& peer = peers_[i];
    // An answer to the abort, or to a step that was given up, takes no suspicion away.
    const bool says_nothing =
        peer.failure && (is_consequence(*peer.failure) ||
                         (own_ && peer.failure->kind == RankFailure::Kind::kReply));
    if (peer.failure && !(peer.suspicion && says_nothing)) {
      fault.ranks.push_back(*peer.failure);
    } else if (peer.suspicion) {
      fault.ranks.push_back({RankId(i), RankFailure::Kind::kSuspected, *peer.suspicion});
    }
    if (peer.state == State::kNotSent) {
      fault.never_asked.emplace_back(i);
    }
  }
  fault.causes_first();
  if (hung_ && !fault.own && std::all_of(fault.ranks.begin(), fault.ranks.end(), is_consequence)) {
    fault.own =
        deadline_exceeded("no rank made progress for " + std::to_string(quiet_ticks_) + " ticks");
  }
  return fault;
}

const wire::RankReply* CollectiveStep::reply(RankId rank) const {
  const Peer& peer = peers_[rank.value()];
  return peer.state == State::kReplied ? &peer.reply : nullptr;
}

Duration CollectiveStep::took(RankId rank) const {
  return peers_[rank.value()].took;
}

void CollectiveStep::record_outcome(RankId rank, State state) {
  peers_[rank.value()].state = state;
  --owing_;
}

void CollectiveStep::blame(RankId rank, RankFailure::Kind kind, Error error) {
  if (kMutation != Mutation::kFirstErrorOnly || !failed_) {
    Peer& peer = peers_[rank.value()];
    if (peer.suspicion) {
      error = std::move(error).with(peer.suspicion->message());
    }
    peer.failure = RankFailure{rank, kind, std::move(error)};
  }
  failed_ = true;
  abort();
  if (kMutation == Mutation::kNoDrain) {
    owing_ = 0;
  }
}

void CollectiveStep::abort() {
  if (aborting_) {
    return;
  }
  aborting_ = true;
  if (kMutation != Mutation::kNoAbort) {
    port_.raise_abort();
  }
  // Who was not reached owes nothing; who is dying still owes the story of its death.
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].state == State::kBlocked && !peers_[i].suspicion) {
      record_outcome(RankId(i), State::kNotSent);
    }
  }
}

void CollectiveStep::kill(RankId rank, Error error) {
  record_outcome(rank, State::kKilled);
  port_.kill(rank);
  blame(rank, RankFailure::Kind::kKilled, std::move(error));
}

void CollectiveStep::kill_owing(const Error& error) {
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    if (owes(peers_[i])) {
      kill(RankId(i), error);
    }
  }
}

}  // namespace phalanx::engine
