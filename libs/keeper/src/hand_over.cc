// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/hand_over.h"

#include <algorithm>

#include "phalanx/obs/log.h"

namespace phalanx::keeper {

namespace {

constexpr const char* kSuspected =
    "the request ended the processes that worked for it; it is not tried again";

bool is_among(const FrontJournal::Marks& suspects, std::uint64_t connection) {
  return std::find(suspects.begin(), suspects.end(), connection) != suspects.end();
}

// Counts what is held against the connection. False: it has had its last chance.
bool count_against(FrontConnection& connection,
                   const os::TcpAccount& account,
                   const FrontEnd& end) {
  if (is_among(suspects_of(end), connection.id)) {
    ++connection.strikes;
    connection.is_suspect = true;
    obs::log_warn("request_suspected",
                  {{"connection", connection.id}, {"strikes", connection.strikes}});
    return connection.failure.empty();
  }
  if (account != connection.account) {
    connection.unexplained_deaths = 0;
  }
  connection.unexplained_deaths += end.is_own && !end.has_suspect ? 1U : 0U;
  return connection.unexplained_deaths < kMaxUnexplainedDeaths || connection.failure.empty();
}

// What it is given up for is rare: a defect in how fronts wait for requests or see clients leave.
Fate go_on_at_rest(FrontConnection& connection,
                   const os::TcpAccount& account,
                   const FrontEnd& end) {
  const bool is_suspected = is_among(suspects_of(end), connection.id);
  const std::uint32_t strikes = connection.strikes_at_rest + (is_suspected ? 1U : 0U);
  put_to_rest(connection, account);
  connection.strikes_at_rest = strikes;
  if (is_suspected) {
    obs::log_warn("connection_suspected_at_rest",
                  {{"connection", connection.id}, {"strikes", strikes}});
  }
  return strikes > kMaxStrikes ? Fate::kCut : Fate::kRests;
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

bool has_suspect(const FrontEnd& end, const std::vector<ConnectionTable::Orphan>& orphans) {
  const FrontJournal::Marks suspects = suspects_of(end);
  return std::ranges::any_of(orphans, [&](const ConnectionTable::Orphan& orphan) {
    return is_among(suspects, orphan.connection.id);
  });
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
    return go_on_at_rest(connection, *account, end);
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
