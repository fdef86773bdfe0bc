// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/hand_over.h"

#include <algorithm>

#include "phalanx/obs/log.h"

namespace phalanx::keeper {

namespace {

constexpr const char* kSuspected =
    "the request ended the processes that worked for it; it is not tried again";

bool is_suspected(const FrontEnd& end, std::uint64_t connection) {
  const FrontJournal::Marks suspects = suspects_of(end);
  return std::find(suspects.begin(), suspects.end(), connection) != suspects.end();
}

bool has_suspects(const FrontEnd& end) {
  const FrontJournal::Marks suspects = suspects_of(end);
  return std::any_of(suspects.begin(), suspects.end(), [](std::uint64_t id) { return id != 0; });
}

// Counts what is held against the connection. False: it has had its last chance.
bool count_against(FrontConnection& connection,
                   const os::TcpAccount& account,
                   const FrontEnd& end) {
  if (is_suspected(end, connection.id)) {
    ++connection.strikes;
    connection.is_suspect = true;
    obs::log_warn("request_suspected",
                  {{"connection", connection.id}, {"strikes", connection.strikes}});
    return connection.failure.empty();
  }
  if (account != connection.account) {
    connection.unexplained_deaths = 0;
  }
  connection.unexplained_deaths += end.is_own && !has_suspects(end) ? 1U : 0U;
  return connection.unexplained_deaths < kMaxUnexplainedDeaths || connection.failure.empty();
}

// A front keeps something of a connection before it touches it, and takes that out when it ends it.
bool was_ended(const FrontEnd& end, const FrontConnection& connection) {
  return end.journal && connection.place != wire::kNoJournalPlace &&
         !end.journal->knows(connection.place, connection.id);
}

}  // namespace

FrontJournal::Marks suspects_of(const FrontEnd& end) {
  if (!end.is_own) {
    return {};
  }
  if (end.culprit != 0) {
    return {end.culprit};
  }
  return end.journal ? end.journal->marks() : FrontJournal::Marks{};
}

void put_to_rest(FrontConnection& connection, const os::TcpAccount& account) {
  connection.clear();
  connection.goes_on = account.sent > 0;
  connection.account = account;
}

Fate hand_over(ConnectionTable::Orphan& orphan,
               const std::optional<os::TcpAccount>& account,
               const FrontEnd& end) {
  FrontConnection& connection = orphan.connection;
  if (!account) {
    return Fate::kCut;
  }
  if (account == orphan.rest) {
    put_to_rest(connection, *account);
    return Fate::kRests;
  }
  if (end.journal && end.journal->holds(connection.place, connection.id)) {
    connection.journal = end.journal;
    connection.left_at = connection.place;
  } else if (!connection.journal || *account != connection.account) {
    return was_ended(end, connection) ? Fate::kOver : Fate::kCut;
  }
  if (!count_against(connection, *account, end)) {
    return Fate::kCut;
  }
  if (connection.strikes >= kMaxStrikes || connection.unexplained_deaths >= kMaxUnexplainedDeaths) {
    connection.failure = kSuspected;
  }
  connection.goes_on = false;
  connection.account = *account;
  connection.resumes = true;
  return Fate::kResumes;
}

}  // namespace phalanx::keeper
