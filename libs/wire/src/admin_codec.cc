// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "phalanx/base/utf8.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/limits.h"

#include "archive.h"
#include "checker.h"
#include "schema_status.h"

namespace phalanx::wire {

namespace {

// Of the texts about processes together: half of an answer, as numbers take less than the other.
constexpr std::size_t kStatusTextBytes = kMaxAdminAnswerBytes / 2;

}  // namespace

template <typename Archive, Like<AdminRequest> Message>
void fields(Archive& archive, Message& message) {
  archive.choice("command", message.command, AdminCommand::kStatus, AdminCommand::kReload);
  archive.number("replica", message.replica, 0, 0xFFFF);
  archive.boolean("fronts", message.fronts);
  archive.text("program", message.program, kMaxPathBytes);
  archive.require(message.command == AdminCommand::kReload || !message.fronts,
                  "fronts",
                  "false for a command other than reload");
  archive.require(message.program.empty() || (message.fronts && message.program.front() == '/'),
                  "program",
                  "an absolute path, of fronts only");
}

template <typename Archive, Like<AdminDone> Message>
void fields(Archive&, Message&) {}

template <typename Archive, Like<AdminRefused> Message>
void fields(Archive& archive, Message& message) {
  archive.text("message", message.message, kMaxErrorBytes);
  archive.boolean("for_now", message.for_now);
}

template <typename Archive, Like<ShownSlot> Message>
void fields(Archive& archive, Message& message) {
  archive.text("state", message.state, kMaxNameBytes);
  archive.number("pid", message.pid);
  archive.id("incarnation", message.incarnation);
  archive.number("restarts", message.restarts);
  archive.text("last_error", message.last_error, kMaxErrorBytes);
}

template <typename Archive, Like<ShownWrapper> Message>
void fields(Archive& archive, Message& message) {
  archive.text("command", message.command, kMaxErrorBytes);
}

template <typename Archive, Like<ShownFront> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("slot", message.slot);
  archive.boolean("active", message.active);
  archive.boolean("is_quarantine", message.is_quarantine);
  archive.number("connections", message.connections);
}

template <typename Archive, Like<ShownReplica> Message>
void fields(Archive& archive, Message& message) {
  archive.structure("slot", message.slot);
  archive.structure("report", message.report);
  archive.number("to_compute", message.to_compute);
  archive.number("to_generate", message.to_generate);
  archive.number("recount_to_compute", message.recount_to_compute);
  archive.number("recount_to_generate", message.recount_to_generate);
  archive.number("open_attempts", message.open_attempts);
  archive.structure("wrapper", message.wrapper);
  archive.list("rank_wrappers", message.rank_wrappers, kMaxRanks);
}

template <typename Archive, Like<ServerStatus> Message>
void fields(Archive& archive, Message& message) {
  archive.text("version", message.version, kMaxNameBytes);
  archive.text("model", message.model, kMaxNameBytes);
  archive.text("state", message.state, kMaxNameBytes);
  archive.number("pid", message.pid);
  archive.number("requests", message.requests);
  archive.number("requests_waiting", message.requests_waiting);
  archive.number("requests_finished", message.requests_finished);
  archive.number("redispatches", message.redispatches);
  archive.list("fronts", message.fronts, kMaxFronts);
  archive.list("replicas", message.replicas, kMaxReplicas);
}

namespace {

struct AdminAnswerFrame {
  AdminAnswer answer;
};

template <typename Archive, Like<AdminAnswerFrame> Message>
void fields(Archive& archive, Message& message) {
  archive.variant("answer", message.answer);
}

}  // namespace

std::string encode(const AdminRequest& request) {
  return Writer::encode(request);
}
std::string encode(const AdminAnswer& answer) {
  return Writer::encode(AdminAnswerFrame{answer});
}

Status check(const AdminRequest& request) {
  return Checker::check("admin_request", request);
}
Status check(const AdminAnswer& answer) {
  return Checker::check("admin_answer", AdminAnswerFrame{answer});
}

Result<AdminRequest> decode_admin_request(std::string_view bytes) {
  return Reader::decode<AdminRequest>("admin_request", bytes);
}
Result<AdminAnswer> decode_admin_answer(std::string_view bytes) {
  PHALANX_TRY(AdminAnswerFrame frame, Reader::decode<AdminAnswerFrame>("admin_answer", bytes));
  return std::move(frame.answer);
}

void fit(ServerStatus* status) {
  std::vector<std::string*> texts;
  for (ShownFront& front : status->fronts) {
    texts.push_back(&front.slot.last_error);
  }
  for (ShownReplica& replica : status->replicas) {
    texts.insert(texts.end(),
                 {&replica.slot.last_error, &replica.report.last_error, &replica.wrapper.command});
    for (RankStatus& rank : replica.report.ranks) {
      texts.push_back(&rank.last_error);
    }
    for (ShownWrapper& wrapper : replica.rank_wrappers) {
      texts.push_back(&wrapper.command);
    }
  }
  const std::size_t share = kStatusTextBytes / std::max<std::size_t>(texts.size(), 1);
  for (std::string* const text : texts) {
    *text = std::string(utf8_prefix(*text, std::min(share, kMaxErrorBytes)));
  }
}

}  // namespace phalanx::wire
