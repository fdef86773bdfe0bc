// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/hand_over.h"

#include <algorithm>

#include "phalanx/obs/log.h"

namespace phalanx::keeper {

namespace {

constexpr const char* kSuspected =
    "the request ended the processes that worked for it; it is not tried again";

// Counts what is held against the connection. False: it has had its last chance.
bool count_against(FrontConnection& connection,
                   const os::TcpAccount& account,
                   const Verdict& verdict) {
  if (verdict.suspects_it(connection.id)) {
    ++connection.strikes;
    connection.is_suspect = true;
    obs::log_warn("request_suspected",
                  {{"connection", connection.id}, {"strikes", connection.strikes}});
    return connection.failure.empty();
  }
  if (account != connection.account) {
    connection.unexplained_deaths = 0;
  }
  connection.unexplained_deaths += verdict.is_own && verdict.suspects.empty() ? 1U : 0U;
  return connection.unexplained_deaths < kMaxUnexplainedDeaths || connection.failure.empty();
}

// What it is given up for is rare: a defect in how fronts wait for requests or see clients leave.
Fate go_on_at_rest(FrontConnection& connection,
                   const os::TcpAccount& account,
                   const Verdict& verdict) {
  const bool is_suspected = verdict.suspects_it(connection.id);
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
bool was_ended(const Verdict& verdict, const FrontConnection& connection) {
  return verdict.journal && connection.place != wire::kNoJournalPlace &&
         !verdict.journal->knows(connection.place, connection.id);
}

}  // namespace

bool Verdict::suspects_it(std::uint64_t connection) const {
  return std::ranges::find(suspects, connection) != suspects.end();
}

Verdict judge(const FrontEnd& end, const std::vector<ConnectionTable::Orphan>& orphans) {
  Verdict verdict{end.is_own, end.journal};
  if (!end.is_own) {
    return verdict;
  }
  FrontJournal::Marks worked_for{end.culprit};
  if (end.culprit == 0 && end.journal) {
    worked_for = end.journal->marks();
  }
  for (const ConnectionTable::Orphan& orphan : orphans) {
    if (std::ranges::find(worked_for, orphan.connection.id) != worked_for.end()) {
      verdict.suspects.push_back(orphan.connection.id);
    }
  }
  return verdict;
}

void put_to_rest(FrontConnection& connection, const os::TcpAccount& account) {
  connection.clear();
  connection.goes_on = account.sent > 0;
  connection.account = account;
}

Fate hand_over(ConnectionTable::Orphan& orphan,
               const std::optional<os::TcpAccount>& account,
               const Verdict& verdict) {
  FrontConnection& connection = orphan.connection;
  if (!account) {
    return Fate::kCut;
  }
  if (account == orphan.rest) {
    return go_on_at_rest(connection, *account, verdict);
  }
  if (verdict.journal && verdict.journal->holds(connection.place, connection.id)) {
    connection.journal = verdict.journal;
    connection.left_at = connection.place;
  } else if (!connection.journal || *account != connection.account) {
    return was_ended(verdict, connection) ? Fate::kOver : Fate::kCut;
  }
  if (!count_against(connection, *account, verdict)) {
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
