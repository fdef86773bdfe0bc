// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "phalanx/keeper/connection_table.h"
#include "phalanx/keeper/front_host.h"
#include "phalanx/os/tcp_account.h"

namespace phalanx::keeper {

// Fronts that may die of their work for a connection before it is given up: one that also has
// others, and two that have nothing else to do. Of one at rest, which is not tried alone as nothing
// is in work for it, all of them have others.
inline constexpr std::uint32_t kMaxStrikes = 3;

// Fronts that may die one after the other of an unknown cause, while a connection in the middle of
// something gets no byte further, before that connection is held to be the cause.
inline constexpr std::uint32_t kMaxUnexplainedDeaths = 16;

// What becomes of a connection whose front is dead and reaped.
enum class Fate {
  kRests,    // another front gets it between two requests
  kResumes,  // another front goes on in the middle of what it was left in
  kOver,     // it had ended, and its front had not yet said so
  kCut       // nobody can go on with it
};

// What the death of a front tells of the connections that it had.
struct Verdict {
  bool is_own = false;                          // as FrontEnd
  std::shared_ptr<const FrontJournal> journal;  // as FrontEnd
  std::vector<std::uint64_t> suspects{};        // that it is held to have died of

  [[nodiscard]] bool suspects_it(std::uint64_t connection) const;
};

// Suspected is the connection that the crashed thread worked for, or else those that any of its
// threads worked for, if it had them. None if somebody else has ended it.
[[nodiscard]] Verdict judge(const FrontEnd& end,
                            const std::vector<ConnectionTable::Orphan>& orphans);

// Decides by the kernel's account of the connection and by what its front has left, and makes of
// `orphan.connection` what the next front is to be told. No account: the kernel's cannot be relied
// on, or the connection is no more.
//
// It rests where its front said so and nothing has been read or written since, and is cut if
// another front dies of it than kMaxStrikes that have died of it where it rests. Else it resumes if
// the journal of the front holds it; if that never came to keep anything of one that had resumed,
// and nothing was read or written meanwhile, it resumes from where it did before. One that a
// front has died of is a suspect; one that kMaxStrikes have died of resumes with a failure, and is
// cut if another front dies of that. The same goes for one that kMaxUnexplainedDeaths have died
// with. It is over if its front had taken it out of the journal.
[[nodiscard]] Fate hand_over(ConnectionTable::Orphan& orphan,
                             const std::optional<os::TcpAccount>& account,
                             const Verdict& verdict);

// Makes of it what the next front is to be told, when it is at rest with that account.
void put_to_rest(FrontConnection& connection, const os::TcpAccount& account);

}  // namespace phalanx::keeper
