// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/tcp_listener.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::keeper {

struct DoorOptions {
  std::string address = "127.0.0.1";   // as TcpListener::listen() has it
  std::uint16_t port = 0;              // 0 = any free one
  std::size_t connections_max = 4096;  // further ones are refused
  // Of one address, or of one /64 of IPv6; further ones are refused. 0 = a quarter of
  // connections_max, and none for loopback, where a proxy may speak for everybody.
  std::size_t connections_per_address_max = 0;
  // How long one beyond a limit waits for a place before it is refused: who closes a connection and
  // opens another at once is not refused because the server has not seen the end yet.
  Duration place_wait = std::chrono::milliseconds(500);
};

// The port of a server and the sockets of its clients: accepts them, keeps them within the limits,
// and holds each until the connection has ended. Whoever speaks with a client does so on a
// duplicate of its socket, and shuts it down when it ends.
//
// Ownership: borrows the loop, which must outlive it; owns the sockets. Destroying it closes the
// port and all of them; no callback runs afterwards.
// Threads: the loop thread (open() may run before the loop does).
// Blocks: never. When the process has no descriptor left, nothing is accepted for a moment, and clients
// wait in the kernel.
class Doors {
 public:
  // Clients that are being refused or wait for a place, at one time; to more the door is just shut.
  static constexpr std::size_t kMaxRefused = 256;

  // A client has come; ids count from 1. One that has to wait for a place comes when a place is
  // free or the wait is over, in the order of arrival. `peer` is its address and port, as
  // "127.0.0.1:41000". If `refusal` is not empty the client is to be told that and no more; it
  // takes no place. Past kMaxRefused, clients are hung up on without a word or a call. `socket`
  // lives until closed(id), which may be called from inside.
  using OnConnection = std::function<void(std::uint64_t id,
                                          const os::UniqueFd& socket,
                                          const std::string& peer,
                                          const std::string& refusal)>;

  // Errors: as TcpListener::listen(); that of a text that is no address names its flag
  [[nodiscard]] static Result<std::unique_ptr<Doors>> open(os::EventLoop& loop,
                                                           DoorOptions options,
                                                           OnConnection on_connection);
  Doors(const Doors&) = delete;
  Doors& operator=(const Doors&) = delete;
  ~Doors() = default;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] bool on_loopback() const { return on_loopback_; }  // as TcpListener has it

  // New connections are refused by the kernel from now on, and those that wait for a place are hung
  // up on; those there go on.
  void stop_accepting();

  // The connection has ended: closes its descriptor and frees its place. Harmless for an unknown id.
  void closed(std::uint64_t id);

  // The client's socket, which lives until closed(id); null for an unknown id.
  [[nodiscard]] const os::UniqueFd* socket(std::uint64_t id) const;

  // Also refused ones and those that wait for a place.
  [[nodiscard]] std::size_t connections() const { return clients_.size(); }

 private:
  struct Client {
    os::UniqueFd socket;
    std::string address;
    std::string peer;  // address and port
    bool is_served = false;
  };
  struct Waiting {
    std::uint64_t id = 0;
    SteadyTime until{};
  };

  Doors(os::EventLoop& loop,
        DoorOptions options,
        os::TcpListener listener,
        OnConnection on_connection);
  void accept_again();
  void accept_some();
  void pause_accepting(const Error& why);
  void admit(os::AcceptedSocket accepted);
  void let_in(std::uint64_t id, const std::string& refusal);
  void let_in_waiting();
  void refuse_waiting();
  void wait_on();
  [[nodiscard]] std::string refusal_of(const std::string& address) const;

  os::EventLoop& loop_;
  DoorOptions options_;
  OnConnection on_connection_;
  std::optional<os::TcpListener> listener_;  // until stop_accepting()
  std::uint16_t port_;
  bool on_loopback_;
  std::unordered_map<std::uint64_t, Client> clients_;
  std::map<std::string, std::size_t> served_of_;  // by address_key()
  std::size_t served_ = 0;                        // of `clients_`
  std::deque<Waiting> waiting_;                   // for a place, in the order of their arrival
  bool place_free_ = false;                       // since they were last looked at
  std::uint64_t last_id_ = 0;
  std::unique_ptr<os::EventLoop::Handle> accepting_;
  std::unique_ptr<os::EventLoop::Handle> pause_;
  bool cannot_accept_ = false;  // since it was logged
  std::unique_ptr<os::EventLoop::Handle> wait_;
};

}  // namespace phalanx::keeper
