// SPDX-License-Identifier: Apache-2.0
#include "phalanx/documents/status_document.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace phalanx::documents {
namespace {

// A server whose model is called so, with one replica that ended with that.
wire::ServerStatus server(const std::string& model, const std::string& last_error) {
  wire::ServerStatus server;
  server.model = model;
  server.state = "serving";
  server.pid = 17;
  wire::ShownReplica& replica = server.replicas.emplace_back();
  replica.slot.last_error = last_error;
  replica.report.ranks.resize(1);
  return server;
}

bool can_be_shown(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char byte) {
    return byte == '\n' || (byte >= 0x20 && byte < 0x7F);
  });
}

TEST(StatusDocument, HasTheseFieldsInThisOrder) {
  wire::ServerStatus status = server("phalanx-tiny", "exit status 1");
  status.version = "1.2.3";
  status.requests = 2;
  status.replicas[0].rank_wrappers = {{"valgrind -q"}};
  status.replicas[0].to_compute = 5;
  status.replicas[0].recount_to_generate = 6;
  status.fronts = {{.slot = {.state = "ready", .pid = 18}, .active = true, .connections = 3}};
  EXPECT_EQ(
      status_json(status),
      R"({"fronts":[{"active":true,"connections":3,"front":0,"incarnation":0,"last_error":"",)"
      R"("pid":18,"quarantine":false,"restarts":0,"state":"ready"}],"model":"phalanx-tiny","pid":17,"redispatches":0,)"
      R"("replicas":[{"drains":0,"epoch":0,"incarnation":0,"kv_blocks_cached":0,)"
      R"("kv_blocks_free":0,"kv_blocks_total":0,"last_error":"exit status 1",)"
      R"("open_attempts":0,"pending_tokens":{"to_compute":5,"to_generate":0},)"
      R"("pending_tokens_recount":{"to_compute":0,"to_generate":6},"pid":0,"preemptions":0,)"
      R"("prefix_tokens_asked":0,"prefix_tokens_found":0,"ranks":[{"allocations":0,)"
      R"("incarnation":0,"last_error":"","pid":0,"preparations":0,"rank":0,"restarts":0,)"
      R"("state":"starting","wrapper":"valgrind -q"}],"replica":0,"restarts":0,"running":0,)"
      R"("stale_replies":0,"state":"","step":0,"waiting":0,"wrapper":""}],"requests":2,)"
      R"("requests_finished":0,"requests_waiting_for_replica":0,"state":"serving",)"
      R"("version":"1.2.3"})");
}

TEST(StatusDocument, AReplicaIsDrainedWhenNobodyKnowsOfWork) {
  const auto shown_with = [](const std::string& state, auto change) {
    wire::ServerStatus status = server("m", "");
    status.replicas[0].slot.state = state;
    change(status.replicas[0]);
    EXPECT_NE(status_table(status).find(shown_state(status.replicas[0])), std::string::npos);
    return shown_state(status.replicas[0]);
  };
  const auto nothing = [](wire::ShownReplica&) {};
  EXPECT_EQ(shown_with("draining", nothing), "drained");
  EXPECT_EQ(shown_with("ready", nothing), "ready");
  EXPECT_EQ(shown_with("draining", [](auto& replica) { replica.report.running = 1; }), "draining");
  EXPECT_EQ(shown_with("draining", [](auto& replica) { replica.report.waiting = 1; }), "draining");
  EXPECT_EQ(shown_with("draining", [](auto& replica) { replica.open_attempts = 1; }), "draining");
}

TEST(StatusDocument, TheReplicasOwnErrorStandsInForTheSlots) {
  wire::ServerStatus status = server("m", "");
  status.replicas[0].report.last_error = "a rank died";
  EXPECT_NE(status_json(status).find(R"("last_error":"a rank died")"), std::string::npos);
}

TEST(StatusTable, ShowsAServerItsReplicasAndTheirRanks) {
  const auto table = status_table(server("phalanx-tiny", "killed by signal 9 (SIGKILL)"));
  for (const char* part : {"phalanx-tiny  serving  leader pid 17",
                           "dp0",
                           "tp0",
                           "last error: killed by signal 9 (SIGKILL)"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4);
}

TEST(StatusTable, SaysWhatEachFrontIsFor) {
  wire::ServerStatus server;
  server.fronts = {{.active = true, .connections = 3},
                   {.connections = 0},
                   {.is_quarantine = true},
                   {.is_quarantine = true, .connections = 1}};
  const std::string table = status_table(server);
  const auto line = [&table](const std::string& front) {
    const std::size_t from = table.find(front);
    return table.substr(from, table.find('\n', from) - from);
  };
  EXPECT_TRUE(line("front 0").ends_with("  3 connections")) << table;
  EXPECT_TRUE(line("front 1").ends_with("  spare")) << table;
  EXPECT_TRUE(line("front 2").ends_with("  quarantine")) << table;
  EXPECT_TRUE(line("front 3").ends_with("  quarantine: a suspect")) << table;
}

TEST(StatusTable, ShowsWhatRunsUnderAWrapper) {
  wire::ServerStatus server;
  wire::ShownReplica& replica = server.replicas.emplace_back();
  replica.report.ranks.resize(2);
  replica.rank_wrappers = {{""}, {"valgrind -q"}};
  const auto table = status_table(server);
  EXPECT_EQ(table.find("under"), table.rfind("under")) << table;
  EXPECT_NE(table.find("under valgrind -q\n"), std::string::npos) << table;
}

TEST(StatusTable, NothingInItReachesTheTerminalRaw) {
  const auto table = status_table(server("a\x1b[2J\u202Eb", "line\nanother\x9b line\xff"));
  EXPECT_TRUE(can_be_shown(std::string(table.begin(), table.begin() + 30))) << table;
  EXPECT_NE(table.find("a\\u{1b}[2J\\u{202e}b"), std::string::npos) << table;
  EXPECT_NE(table.find("line\\u{a}another"), std::string::npos) << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4) << "no line can be forged";
}

TEST(StatusDocument, IsAlsoThereInAscii) {
  const wire::ServerStatus status = server("modèle\x1b\u202E", "\xff");
  const std::string line = status_json_in_ascii(status);
  EXPECT_TRUE(can_be_shown(line)) << line;
  EXPECT_NE(line.find(R"("model":"mod\u00e8le\u001b\u202e")"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("last_error":"\ufffd")"), std::string::npos) << line;
  EXPECT_NE(status_json(status).find("modèle"), std::string::npos);
}

}  // namespace
}  // namespace phalanx::documents
