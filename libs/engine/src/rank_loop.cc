// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/rank_loop.h"

#include <exception>
#include <string>
#include <tuple>

#include "phalanx/base/check.h"
#include "phalanx/base/exception_error.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/wire/error_text.h"

#include "mutation.h"

namespace phalanx::engine {

RankLoop::RankLoop(const RankLoopOptions& options,
                   step::SequenceTable& table,
                   ModelRunner& runner,
                   ResultRing& ring)
    : options_(options),
      table_(table),
      runner_(runner),
      ring_(ring),
      results_(table.limits().max_num_seqs),
      slot_used_(table.limits().max_num_seqs) {
  PHALANX_CHECK(ring.rows() >= table.limits().max_num_seqs, "a row of the ring for each item");
}

wire::RankReply RankLoop::handle(const wire::RankCommand& command) {
  wire::RankReply reply;
  reply.epoch = command.epoch;
  reply.step = command.step;
  reply.op = command.op;
  reply.rank = options_.rank;

  Status status = admit(command);
  if (status) {
    epoch_ = command.epoch;
    step_ = command.step;
    op_ = command.op;
    status = guarded(command, reply);
    if (!status && command.op != wire::RankOp::kPing) {
      phase_ = Phase::kBroken;
    }
  }
  if (!status) {
    reply.code = wire::error_code(status.error());
    reply.message = wire::error_text(status.error().message());
  }
  const bool is_step = command.op == wire::RankOp::kStep;
  reply.state_hash =
      table_.hash(is_step ? std::span(command.items) : std::span<const step::StepItem>());
  const RunnerCounters counters = runner_.counters();
  reply.compute_us = counters.compute_us;
  reply.collective_us = counters.collective_us;
  reply.preparations = counters.preparations;
  reply.allocations = counters.allocations;
  return reply;
}

Status RankLoop::admit(const wire::RankCommand& command) const {
  const std::string name(name_of(command.op));
  if (std::tuple(command.epoch, command.step, command.op) <= std::tuple(epoch_, step_, op_)) {
    return failed_precondition(
        name + " of epoch " + std::to_string(command.epoch.value()) + " step " +
        std::to_string(command.step.value()) + " is old: this rank has seen epoch " +
        std::to_string(epoch_.value()) + " step " + std::to_string(step_.value()));
  }
  if (command.op == wire::RankOp::kHello ? command.epoch == epoch_ : command.epoch != epoch_) {
    return failed_precondition(name + " of epoch " + std::to_string(command.epoch.value()) +
                               " in epoch " + std::to_string(epoch_.value()));
  }
  const auto after = [&](Phase phase) {
    return phase_ == phase ? ok() : Status(failed_precondition(name + " is out of order"));
  };
  switch (command.op) {
    case wire::RankOp::kInit:
      return after(Phase::kHello);
    case wire::RankOp::kSanity:
      return after(Phase::kInit);
    case wire::RankOp::kAttach:
      return after(Phase::kSanity);
    case wire::RankOp::kStep:
    case wire::RankOp::kClear:
      return after(Phase::kAttached);
    case wire::RankOp::kHello:
    case wire::RankOp::kPing:
    case wire::RankOp::kShutdown:
      return ok();
  }
  return invalid_argument("operation " + std::to_string(static_cast<int>(command.op)) +
                          " is unknown");
}

// The edge at which an exception of a runner becomes an error like any other: the rank has to
// answer, or its whole group waits for it.
Status RankLoop::guarded(const wire::RankCommand& command, wire::RankReply& reply) {
  try {
    return execute(command, reply);
  } catch (const std::exception& exception) {
    return phalanx::error_of(exception);
  } catch (...) {
    return internal_error("an exception that is no std::exception");
  }
}

Status RankLoop::execute(const wire::RankCommand& command, wire::RankReply& reply) {
  switch (command.op) {
    case wire::RankOp::kHello:
      PHALANX_RETURN_IF_ERROR(hello(reply));
      phase_ = Phase::kHello;
      return ok();
    case wire::RankOp::kInit:
      PHALANX_RETURN_IF_ERROR(runner_.init(command.epoch));
      phase_ = Phase::kInit;
      return ok();
    case wire::RankOp::kSanity:
      if (kMutation != Mutation::kNoSanity) {
        PHALANX_RETURN_IF_ERROR(runner_.sanity());
      }
      phase_ = Phase::kSanity;
      return ok();
    case wire::RankOp::kAttach:
      table_.clear();
      PHALANX_RETURN_IF_ERROR(attach(command));
      phase_ = Phase::kAttached;
      return ok();
    case wire::RankOp::kStep:
      return step(command);
    case wire::RankOp::kClear:
      table_.clear();
      return runner_.clear(command.zero_kv);
    case wire::RankOp::kPing:
      return ok();
    case wire::RankOp::kShutdown:
      finished_ = true;
      return ok();
  }
  return invalid_argument("unknown operation");
}

Status RankLoop::hello(wire::RankReply& reply) {
  PHALANX_TRY(const RunnerIdentity identity, runner_.identity());
  reply.pid = options_.pid;
  reply.secret = options_.secret;
  reply.callables_hash = identity.callables_hash;
  reply.numerics_fingerprint = identity.numerics_fingerprint;
  return ok();
}

Status RankLoop::attach(const wire::RankCommand& command) {
  for (const std::uint32_t slot : command.detach) {
    PHALANX_RETURN_IF_ERROR(table_.detach(slot));
  }
  for (const step::SequenceAttach& sequence : command.attach) {
    PHALANX_RETURN_IF_ERROR(table_.attach(sequence));
  }
  return ok();
}

Status RankLoop::step(const wire::RankCommand& command) {
  PHALANX_RETURN_IF_ERROR(attach(command));
  PHALANX_RETURN_IF_ERROR(check_items(command));
  for (const step::StepItem& item : command.items) {
    table_.extend(item);
  }
  const std::span results = std::span(results_).first(command.items.size());
  for (step::SampleResult& result : results) {
    result.top_count = 0;
    result.fault = 0;
  }
  PHALANX_RETURN_IF_ERROR(runner_.step(table_, command.items, results));
  publish(command);
  return ok();
}

Status RankLoop::check_items(const wire::RankCommand& command) {
  if (command.items.empty() || command.items.size() > table_.limits().max_num_seqs) {
    return failed_precondition("a step of " + std::to_string(command.items.size()) +
                               " items; 1 to " + std::to_string(table_.limits().max_num_seqs) +
                               " are possible");
  }
  slot_used_.assign(slot_used_.size(), false);
  std::uint64_t tokens = 0;
  for (const step::StepItem& item : command.items) {
    PHALANX_RETURN_IF_ERROR(table_.check(item));
    if (slot_used_[item.slot]) {
      return failed_precondition("slot " + std::to_string(item.slot) + " twice in one step");
    }
    slot_used_[item.slot] = true;
    tokens += item.count;
  }
  if (tokens > table_.limits().max_num_batched_tokens) {
    return failed_precondition("a step of " + std::to_string(tokens) + " tokens; at most " +
                               std::to_string(table_.limits().max_num_batched_tokens) + " fit");
  }
  return ok();
}

void RankLoop::publish(const wire::RankCommand& command) {
  for (std::uint32_t i = 0; i < command.items.size(); ++i) {
    const step::StepItem& item = command.items[i];
    if (item.sample) {
      results_[i].sequence = item.sequence;
      ring_.publish(command.step, i, results_[i]);
      table_.append(item.slot, step::table_token(results_[i]));
    }
  }
}

}  // namespace phalanx::engine
