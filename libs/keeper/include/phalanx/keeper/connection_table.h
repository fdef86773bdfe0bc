// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/os/tcp_account.h"

namespace phalanx::keeper {

// What a front is told of a connection when it gets it.
struct Newcomer {
  std::uint64_t id = 0;
  std::string peer;      // "127.0.0.1:41000"
  std::string refusal;   // not empty: only to be told so
  bool goes_on = false;  // another front has served it
};

// Which front has which connection. So many of the ready fronts are active, the others are spare: a
// new connection goes to the active one that has the fewest, and a spare one becomes active as soon
// as one is missing. While none is ready connections wait, as many as the doors let in.
//
// Of each it keeps what had been read and written when the connection was last at rest: one that
// still is where it was then can be given to another front when its own has died.
//
// Threads: one.
class ConnectionTable {
 public:
  using Give = std::function<void(std::size_t front, const Newcomer& connection)>;

  // A connection that nobody has any more.
  struct Orphan {
    Newcomer connection;
    os::TcpAccount rest;  // of the kernel, if it is at rest
  };

  // At most `active` of `fronts` are active at a time.
  ConnectionTable(std::size_t fronts, std::size_t active, Give give);

  // `begun`: the account of a connection that a front had before.
  void add(Newcomer connection, const os::TcpAccount& begun = {});
  void on_front_ready(std::size_t front);

  // The front is gone: the connections that it had.
  [[nodiscard]] std::vector<Orphan> on_front_gone(std::size_t front);

  // The front says that a connection is at rest, and what it has read and written since it has it.
  // False: it is not this front's.
  [[nodiscard]] bool rest(std::size_t front,
                          std::uint64_t id,
                          std::uint64_t received,
                          std::uint64_t sent);

  // The front gets no connection any more, nor is it a spare one.
  void retire(std::size_t front);

  // It has let go of a connection, having read and written that much. Nothing: it is not this
  // front's.
  [[nodiscard]] std::optional<Orphan> release(std::size_t front,
                                              std::uint64_t id,
                                              std::uint64_t received,
                                              std::uint64_t sent);

  // The front has ended the connection. False: it is not this front's.
  [[nodiscard]] bool remove(std::size_t front, std::uint64_t id);

  // The connections that wait for a front; they are forgotten.
  [[nodiscard]] std::vector<std::uint64_t> take_waiting();

  // Of a front, waiting ones left out.
  [[nodiscard]] std::size_t count(std::size_t front) const { return fronts_[front].connections; }
  [[nodiscard]] bool active(std::size_t front) const { return fronts_[front].active; }
  [[nodiscard]] bool spare(std::size_t front) const {
    return fronts_[front].ready && !fronts_[front].active;
  }

 private:
  struct Front {
    bool ready = false;
    bool active = false;
    std::size_t connections = 0;
  };

  struct Entry {
    Newcomer connection;
    std::optional<std::size_t> front;  // none: it waits for one
    os::TcpAccount begun;              // when its front got it
    os::TcpAccount rest;               // when it was last at rest
  };

  [[nodiscard]] std::optional<std::size_t> least_loaded() const;
  [[nodiscard]] Entry* find(std::size_t front, std::uint64_t id);
  void give(std::size_t front, Entry& entry);
  void promote();

  std::size_t active_max_;
  Give give_;
  std::vector<Front> fronts_;
  std::map<std::uint64_t, Entry> entries_;
  std::deque<std::uint64_t> waiting_;
};

}  // namespace phalanx::keeper
