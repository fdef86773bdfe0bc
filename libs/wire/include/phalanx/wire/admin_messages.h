// SPDX-License-Identifier: Apache-2.0
// What an operator asks of a server and what it answers, over the admin socket; the status also
// goes to fronts, for GET /health. Contract with units, limits and framing: proto/admin.md.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::wire {

// ---- operator → leader

enum class AdminCommand : std::uint8_t { kStatus, kPing, kDrain, kResume, kRestart, kReload };

struct AdminRequest {
  AdminCommand command = AdminCommand::kStatus;
  std::uint32_t replica = 0;  // of drain, resume and restart
  bool fronts = false;        // reload: only the fronts
  std::string program{};  // … to run this, an absolute path; empty: what lies where theirs was
  friend bool operator==(const AdminRequest&, const AdminRequest&) = default;
};

// ---- leader → operator

// The command was taken.
struct AdminDone {
  friend bool operator==(const AdminDone&, const AdminDone&) = default;
};

struct AdminRefused {
  std::string message{};
  bool for_now = false;  // asked again later it may be done
  friend bool operator==(const AdminRefused&, const AdminRefused&) = default;
};

// A process that is started again when it dies.
struct ShownSlot {
  std::string state{};   // of its life, as people read it
  std::int32_t pid = 0;  // 0: no process
  Incarnation incarnation{};
  std::uint32_t restarts = 0;
  std::string last_error{};  // empty: none
  friend bool operator==(const ShownSlot&, const ShownSlot&) = default;
};

// The command that a process runs under; empty: none.
struct ShownWrapper {
  std::string command{};
  friend bool operator==(const ShownWrapper&, const ShownWrapper&) = default;
};

struct ShownReplica {
  ShownSlot slot{};
  ReplicaStatus report{};        // the last one that it sent, or empty
  std::uint64_t to_compute = 0;  // tokens that the ledger says it owes …
  std::uint64_t to_generate = 0;
  std::uint64_t recount_to_compute = 0;  // … and the same counted again
  std::uint64_t recount_to_generate = 0;
  std::uint64_t open_attempts = 0;
  ShownWrapper wrapper{};
  std::vector<ShownWrapper> rank_wrappers{};  // of each of report.ranks
  friend bool operator==(const ShownReplica&, const ShownReplica&) = default;
};

struct ShownFront {
  ShownSlot slot{};
  bool active = false;         // it gets connections; false: spare, or not ready
  bool is_quarantine = false;  // it works for a suspect alone
  std::uint64_t connections = 0;
  friend bool operator==(const ShownFront&, const ShownFront&) = default;
};

// The whole state of a server. The number of a front or a replica is its place in the list.
struct ServerStatus {
  std::string version{};  // of the server
  std::string model{};    // what clients call it
  std::string state{};    // "serving", …
  std::int32_t pid = 0;   // of the leader
  std::uint64_t requests = 0;
  std::uint64_t requests_waiting = 0;
  std::uint64_t requests_finished = 0;
  std::uint64_t redispatches = 0;
  std::vector<ShownFront> fronts{};
  std::vector<ShownReplica> replicas{};
  friend bool operator==(const ServerStatus&, const ServerStatus&) = default;
};

using AdminAnswer = std::variant<AdminDone, AdminRefused, ServerStatus>;

// Shortens the texts about processes so that the status fits into kMaxAdminAnswerBytes, however
// many processes there are; with few of them only what is beyond kMaxErrorBytes is cut.
void fit(ServerStatus* status);

}  // namespace phalanx::wire
