// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <iomanip>
#include <sstream>

#include "phalanx/base/printable.h"
#include "phalanx/documents/status_document.h"

#include "status_object.h"

namespace phalanx::documents {

namespace {

using nlohmann::json;

std::string text(const json& object, const char* key) {
  return printable(object.at(key).get<std::string>());
}
std::uint64_t number(const json& object, const char* key) {
  return object.at(key).get<std::uint64_t>();
}

void write_row(std::ostream& out,
               const std::string& name,
               const std::string& state,
               const std::string& pid,
               const json& object,
               const std::string& work) {
  out << "  " << std::left << std::setw(10) << name << std::setw(12) << state << std::right
      << std::setw(8) << pid << std::setw(6) << number(object, "incarnation") << std::setw(10)
      << number(object, "restarts") << "  " << work;
  const std::string wrapper = object.contains("wrapper") ? text(object, "wrapper") : "";
  if (!wrapper.empty()) {
    out << (work.empty() ? "" : "  ") << "under " << wrapper;
  }
  const std::string error = text(object, "last_error");
  out << (error.empty() ? "" : "  last error: " + error) << "\n";
}

std::string pid_text(const json& object) {
  const auto pid = object.at("pid").get<std::int64_t>();
  return pid == 0 ? "-" : std::to_string(pid);
}

void write_replica(std::ostream& out, const json& replica) {
  const json& pending = replica.at("pending_tokens");
  std::ostringstream work;
  work << "epoch " << number(replica, "epoch") << "  running " << number(replica, "running")
       << "  waiting " << number(replica, "waiting") << "  pending "
       << number(pending, "to_compute") << "+" << number(pending, "to_generate") << " tokens  KV "
       << number(replica, "kv_blocks_total") - number(replica, "kv_blocks_free") << "/"
       << number(replica, "kv_blocks_total");
  const std::string name = "dp" + std::to_string(number(replica, "replica"));
  write_row(out, name, text(replica, "state"), pid_text(replica), replica, work.str());
  for (const json& rank : replica.at("ranks")) {
    write_row(out,
              "  tp" + std::to_string(number(rank, "rank")),
              text(rank, "state"),
              pid_text(rank),
              rank,
              "");
  }
}

std::string front_use(const json& front) {
  if (front.at("quarantine").get<bool>()) {
    return number(front, "connections") > 0 ? "quarantine: a suspect" : "quarantine";
  }
  return front.at("active").get<bool>()
             ? std::to_string(number(front, "connections")) + " connections"
             : "spare";
}

}  // namespace

// Of the text, because bytes that are no UTF-8 are replaced there.
std::string status_table(const wire::ServerStatus& from) {
  const json status = json::parse(status_json(from));
  std::ostringstream out;
  out << text(status, "model") << "  " << text(status, "state") << "  leader pid "
      << number(status, "pid") << "  version " << text(status, "version") << "  requests "
      << number(status, "requests") << " open, " << number(status, "requests_finished")
      << " finished, " << number(status, "redispatches") << " moved\n";
  out << "  " << std::left << std::setw(10) << "" << std::setw(12) << "STATE" << std::right
      << std::setw(8) << "PID" << std::setw(6) << "LIFE" << std::setw(10) << "RESTARTS"
      << "\n";
  for (const json& front : status.at("fronts")) {
    write_row(out,
              "front " + std::to_string(number(front, "front")),
              text(front, "state"),
              pid_text(front),
              front,
              front_use(front));
  }
  for (const json& replica : status.at("replicas")) {
    write_replica(out, replica);
  }
  return out.str();
}

}  // namespace phalanx::documents
