// SPDX-License-Identifier: Apache-2.0
#include "phalanx/admin/status_view.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/admin/status_document.h"

namespace phalanx::admin {
namespace {

// A server whose model is called so, with one replica that ended with that.
std::string document(const std::string& model, const std::string& last_error) {
  ServerView server;
  server.model = model;
  server.phase = "serving";
  server.pid = 17;
  ReplicaView& replica = server.replicas.emplace_back();
  replica.slot.last_error = last_error;
  replica.report.ranks.resize(1);
  return status_json(server);
}

bool can_be_shown(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char byte) {
    return byte == '\n' || (byte >= 0x20 && byte < 0x7F);
  });
}

TEST(StatusTable, ShowsAServerItsReplicasAndTheirRanks) {
  const auto table = status_table(document("phalanx-tiny", "killed by signal 9 (SIGKILL)"));
  ASSERT_TRUE(table) << table.error().message();
  for (const char* part : {"phalanx-tiny  serving  leader pid 17",
                           "dp0",
                           "tp0",
                           "last error: killed by signal 9 (SIGKILL)"}) {
    EXPECT_NE(table->find(part), std::string::npos) << part << "\n" << *table;
  }
  EXPECT_EQ(std::count(table->begin(), table->end(), '\n'), 4);
}

TEST(StatusTable, ShowsWhatRunsUnderAWrapper) {
  ServerView server;
  ReplicaView& replica = server.replicas.emplace_back();
  replica.report.ranks.resize(2);
  replica.rank_wrappers = {"", "valgrind -q"};
  const auto table = status_table(status_json(server));
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_EQ(table->find("under"), table->rfind("under")) << *table;
  EXPECT_NE(table->find("under valgrind -q\n"), std::string::npos) << *table;
}

TEST(StatusTable, NothingInItReachesTheTerminalRaw) {
  const auto table = status_table(document("a\x1b[2J\u202Eb", "line\nanother\x9b line\xff"));
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_TRUE(can_be_shown(std::string(table->begin(), table->begin() + 30))) << *table;
  EXPECT_NE(table->find("a\\u{1b}[2J\\u{202e}b"), std::string::npos) << *table;
  EXPECT_NE(table->find("line\\u{a}another"), std::string::npos) << *table;
  EXPECT_EQ(std::count(table->begin(), table->end(), '\n'), 4) << "no line can be forged";
}

TEST(StatusTable, RefusesWhatNoServerOfThisVersionSends) {
  for (const char* bytes : {"", "{}", "[]", "\x1b[2J", R"({"model":1})"}) {
    EXPECT_FALSE(status_table(bytes)) << bytes;
  }
}

TEST(StatusLine, IsTheSameDocumentInAscii) {
  const auto line = status_line(document("modèle\x1b\u202E", ""));
  ASSERT_TRUE(line) << line.error().message();
  EXPECT_TRUE(can_be_shown(*line)) << *line;
  EXPECT_NE(line->find(R"("model":"mod\u00e8le\u001b\u202e")"), std::string::npos) << *line;
}

TEST(StatusLine, RefusesWhatIsNoDocument) {
  for (const char* bytes : {"", "\x1b[2J", "[1]", "{\"a\":\"\x9b\"}"}) {
    EXPECT_FALSE(status_line(bytes)) << bytes;
  }
}

}  // namespace
}  // namespace phalanx::admin
