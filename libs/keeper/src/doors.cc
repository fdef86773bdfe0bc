// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/doors.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "phalanx/os/net_address.h"

namespace phalanx::keeper {

namespace {

// Connections beyond the limit that are told so; past them, the door is just shut.
constexpr std::size_t kRefusedConnectionsMax = 256;

// Clients that are let in before the loop sees to others.
constexpr int kAcceptsPerTurn = 64;

// How long accepting rests when the process has no descriptor left.
constexpr auto kRest = std::chrono::milliseconds(100);

}  // namespace

Result<std::unique_ptr<Doors>> Doors::open(os::EventLoop& loop,
                                           DoorOptions options,
                                           OnConnection on_connection) {
  PHALANX_TRY(os::TcpListener listener,
              os::TcpListener::listen(options.address, options.port, options.backlog));
  return std::unique_ptr<Doors>(
      new Doors(loop, std::move(options), std::move(listener), std::move(on_connection)));
}

Doors::Doors(os::EventLoop& loop,
             DoorOptions options,
             os::TcpListener listener,
             OnConnection on_connection)
    : loop_(loop),
      options_(std::move(options)),
      on_connection_(std::move(on_connection)),
      listener_(std::move(listener)),
      port_(listener_->port()),
      on_loopback_(listener_->on_loopback()) {
  accept_again();
}

void Doors::stop_accepting() {
  accepting_.reset();
  resting_.reset();
  listener_.reset();
}

void Doors::closed(std::uint64_t id) {
  const auto place = clients_.find(id);
  if (place == clients_.end()) {
    return;
  }
  const Client client = std::move(place->second);
  clients_.erase(place);
  if (client.is_refused) {
    --refused_;
    return;
  }
  const auto share = served_of_.find(client.address_key);
  if (--share->second == 0) {
    served_of_.erase(share);
  }
}

const os::UniqueFd* Doors::socket(std::uint64_t id) const {
  const auto place = clients_.find(id);
  return place == clients_.end() ? nullptr : &place->second.socket;
}

void Doors::accept_again() {
  accepting_ = loop_.watch_readable(listener_->fd(), [this] { accept_some(); });
}

void Doors::accept_some() {
  loop_.name_callback("accept");
  for (int i = 0; i < kAcceptsPerTurn && listener_; ++i) {
    auto accepted = listener_->accept();
    if (!accepted) {
      return rest();
    }
    if (!*accepted) {
      return;
    }
    admit(**std::move(accepted));
  }
}

void Doors::rest() {
  accepting_.reset();
  resting_ = loop_.call_after(kRest, [this] { accept_again(); });
}

void Doors::admit(os::AcceptedSocket accepted) {
  const std::string refusal = refusal_of(accepted.address);
  if (!refusal.empty() && refused_ >= kRefusedConnectionsMax) {
    return;
  }
  const std::uint64_t id = ++last_id_;
  const auto place =
      clients_
          .emplace(
              id,
              Client{std::move(accepted.fd), os::address_key(accepted.address), !refusal.empty()})
          .first;
  if (refusal.empty()) {
    ++served_of_[place->second.address_key];
  } else {
    ++refused_;
  }
  on_connection_(
      id, place->second.socket, accepted.address + ":" + std::to_string(accepted.port), refusal);
}

// Why no further connection of this address is served; empty if one is.
std::string Doors::refusal_of(const std::string& address) const {
  const std::size_t limit = options_.connections_max;
  if (clients_.size() - refused_ >= limit) {
    return "the server has its " + std::to_string(limit) + " connections; try again later";
  }
  std::size_t share = options_.connections_per_address_max;
  if (share == 0) {
    if (os::is_loopback_address(address)) {
      return "";
    }
    share = std::max<std::size_t>(limit / 4, 1);
  }
  const auto place = served_of_.find(os::address_key(address));
  if (place == served_of_.end() || place->second < share) {
    return "";
  }
  return "your address has its " + std::to_string(share) +
         " connections (--max-connections-per-address); use fewer, or try again later";
}

}  // namespace phalanx::keeper
