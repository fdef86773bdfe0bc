// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/keeper/front_journal.h"
#include "phalanx/os/tcp_account.h"
#include "phalanx/wire/front_journal.h"

namespace phalanx::keeper {

// A connection as the table keeps it, and as a front is told of it.
struct FrontConnection {
  std::uint64_t id = 0;
  std::string peer{};                           // "127.0.0.1:41000"
  std::string refusal{};                        // not empty: only to be told so
  bool goes_on = false;                         // another front has served it, and it is at rest
  SteadyTime waits_since{};                     // for a request: its beginning, or its last rest
  std::uint32_t place = wire::kNoJournalPlace;  // in its front's journal; the table chooses it
  os::TcpAccount account{};                     // when its front got it
  // It was left in the middle of something, which is in the journal of a dead front, at that place.
  bool resumes = false;
  std::shared_ptr<const FrontJournal> journal{};
  std::uint32_t left_at = 0;
  std::string failure{};      // not empty: it is not gone on with, but fails so
  std::uint32_t strikes = 0;  // fronts that have died while they worked for it, since it rested
  std::uint32_t unexplained_deaths = 0;  // of fronts, since its last byte
  bool is_suspect = false;               // behind a strike: it is worked for beside nobody else
  std::uint32_t strikes_at_rest = 0;     // fronts that have died of it where it rests now

  // It is at rest: what it was left in is past, and nothing is held against it.
  void clear();
};

// Which front has which connection. Some of the ready fronts are active, the others are spare: a
// new connection goes to the active one with the fewest, and a spare one becomes active as soon as
// one is missing. While none is ready connections wait, as many as the doors let in; give_waiting()
// gives them out.
//
// Of each connection it keeps what had been read and written when it was last at rest: if it is
// still there when its front dies, another front simply gets it. If not, it goes on from what its
// front has left in its journal, where each connection has a place of its own.
//
// Threads: one.
class ConnectionTable {
 public:
  using Give = std::function<void(std::size_t front, const FrontConnection& connection)>;

  // A connection that nobody has any more.
  struct Orphan {
    // As its front got it; `journal` is gone if it has been at rest since.
    FrontConnection connection;
    // Of the kernel, if it is at rest. None: it resumed and has not been at rest since.
    std::optional<os::TcpAccount> rest;
  };

  // At most `active` of `fronts` are active at a time. The journal of each has `places`.
  ConnectionTable(std::size_t fronts, std::size_t active, std::uint32_t places, Give give);

  // For the active front with the fewest, now or later. Unless it resumes, it is at rest with its
  // account.
  void add(FrontConnection connection);
  void on_front_ready(std::size_t front);

  // The same for this front, whether or not it is active.
  void add_to(std::size_t front, FrontConnection connection);

  // The front is gone. Returns the connections that it had.
  [[nodiscard]] std::vector<Orphan> on_front_gone(std::size_t front);

  // The front says that a connection is at rest, and what has been read and written since its
  // beginning; it is so since now if that is more than at its last rest. False: it is not this
  // front's.
  [[nodiscard]] bool rest(std::size_t front,
                          std::uint64_t id,
                          const os::TcpAccount& account,
                          SteadyTime now);

  // The front gets no more connections, and is not spare either.
  void retire(std::size_t front);

  // The front has let go of a connection, which is at rest with that account. Nothing: it is not
  // this front's.
  [[nodiscard]] std::optional<Orphan> release(std::size_t front,
                                              std::uint64_t id,
                                              const os::TcpAccount& account,
                                              SteadyTime now);

  // The front has ended the connection. False: it is not this front's.
  [[nodiscard]] bool remove(std::size_t front, std::uint64_t id);

  // Gives out `most` of those that wait, in their order, if a front is active. True: more could be
  // given.
  [[nodiscard]] bool give_waiting(std::size_t most);

  // The connections that wait for a front, in their order …
  [[nodiscard]] const std::deque<std::uint64_t>& waiting() const { return waiting_; }
  // … of which these are forgotten, in any order.
  void drop_waiting(const std::set<std::uint64_t>& connections);

  // What on_front_gone() would return now.
  [[nodiscard]] std::vector<Orphan> connections_of(std::size_t front) const;

  // Looks at `most` connections, others in each call, and lets go of the journal of a dead front
  // where `holds` says that the connection's own front keeps all of it by now.
  using Holds = std::function<bool(std::size_t front, const FrontConnection& connection)>;
  void drop_journals(std::size_t most, const Holds& holds);

  [[nodiscard]] bool has(std::size_t front, std::uint64_t id) const;
  // The connections that the front has.
  [[nodiscard]] std::size_t count(std::size_t front) const { return fronts_[front].connections; }
  [[nodiscard]] bool active(std::size_t front) const { return is(front, Role::kActive); }
  [[nodiscard]] bool any_active() const { return least_loaded().has_value(); }
  [[nodiscard]] bool spare(std::size_t front) const { return is(front, Role::kSpare); }

 private:
  enum class Role { kNone, kSpare, kActive };
  struct Front {
    Role role = Role::kNone;
    std::size_t connections = 0;
    std::set<std::uint32_t> free_places{};  // below `places_begun`
    std::uint32_t places_begun = 0;         // that have ever been given
  };

  struct Entry {
    FrontConnection connection;
    std::optional<std::size_t> front;    // none: it waits for one
    std::optional<os::TcpAccount> rest;  // when it was last at rest
  };

  [[nodiscard]] bool is(std::size_t front, Role role) const { return fronts_[front].role == role; }
  [[nodiscard]] std::optional<std::size_t> least_loaded() const;
  [[nodiscard]] Entry* find(std::size_t front, std::uint64_t id);
  [[nodiscard]] Entry& enter(FrontConnection connection);
  void give(std::size_t front, Entry& entry);
  void erase(std::size_t front, std::uint64_t id);
  [[nodiscard]] std::uint32_t take_place(Front& front) const;
  void promote();

  std::size_t active_max_;
  std::uint32_t places_;
  Give give_;
  std::vector<Front> fronts_;
  std::map<std::uint64_t, Entry> entries_;
  std::deque<std::uint64_t> waiting_;
  std::uint64_t looked_at_ = 0;  // by drop_journals(), the last one
};

}  // namespace phalanx::keeper
