// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/doors.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "phalanx/obs/log.h"
#include "phalanx/os/net_address.h"

namespace phalanx::keeper {

namespace {

// Clients that are let in before the loop sees to others.
constexpr int kAcceptsPerTurn = 64;

// Those that the kernel keeps while the loop sees to others.
constexpr int kBacklog = 4096;

// How long nothing is accepted when the process has no descriptor left.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

Result<std::unique_ptr<Doors>> Doors::open(os::EventLoop& loop,
                                           DoorOptions options,
                                           OnConnection on_connection) {
  auto listener = os::TcpListener::listen(options.address, options.port, kBacklog);
  if (!listener) {
    Error error = std::move(listener).error();
    return error.code() == Code::kInvalidArgument ? std::move(error).with("--host") : error;
  }
  return std::unique_ptr<Doors>(
      new Doors(loop, std::move(options), *std::move(listener), std::move(on_connection)));
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
  pause_.reset();
  listener_.reset();
  wait_.reset();
  for (const Waiting& one : std::exchange(waiting_, {})) {
    clients_.erase(one.id);
  }
}

void Doors::closed(std::uint64_t id) {
  const auto place = clients_.find(id);
  if (place == clients_.end()) {
    return;
  }
  const Client client = std::move(place->second);
  clients_.erase(place);
  if (!client.is_served) {
    return;
  }
  --served_;
  const auto share = served_of_.find(os::address_key(client.address));
  if (--share->second == 0) {
    served_of_.erase(share);
  }
  if (!waiting_.empty() && !std::exchange(place_free_, true)) {
    wait_on();
  }
}

const os::UniqueFd* Doors::socket(std::uint64_t id) const {
  const auto place = clients_.find(id);
  return place == clients_.end() ? nullptr : &place->second.socket;
}

void Doors::accept_again() {
  auto watch = loop_.watch_readable(listener_->fd(), [this] { accept_some(); });
  if (!watch) {
    return pause_accepting(watch.error());
  }
  accepting_ = *std::move(watch);
}

void Doors::accept_some() {
  loop_.name_callback("accept");
  for (int i = 0; i < kAcceptsPerTurn && listener_; ++i) {
    auto accepted = listener_->accept();
    if (!accepted) {
      return pause_accepting(accepted.error());
    }
    cannot_accept_ = false;
    if (!*accepted) {
      return;
    }
    admit(**std::move(accepted));
  }
}

// Of descriptors or memory there may be more again.
void Doors::pause_accepting(const Error& why) {
  if (!std::exchange(cannot_accept_, true)) {
    obs::log_error("cannot_accept", {{"error", why.to_string()}});
  }
  accepting_.reset();
  pause_ = loop_.call_after(kAcceptPause, [this] { accept_again(); });
}

void Doors::admit(os::AcceptedSocket accepted) {
  let_in_waiting();  // before who came later
  const bool waits = !refusal_of(accepted.address).empty();
  if (waits && clients_.size() - served_ >= kMaxRefused) {
    return;
  }
  const std::uint64_t id = ++last_id_;
  std::string peer = accepted.address + ":" + std::to_string(accepted.port);
  clients_.emplace(id,
                   Client{std::move(accepted.fd), std::move(accepted.address), std::move(peer)});
  if (!waits) {
    return let_in(id, "");
  }
  waiting_.push_back({id, running_clock().now() + options_.place_wait});
  if (waiting_.size() == 1) {
    wait_on();
  }
}

// It is told, one way or the other.
void Doors::let_in(std::uint64_t id, const std::string& refusal) {
  Client& client = clients_.at(id);
  client.is_served = refusal.empty();
  if (client.is_served) {
    ++served_;
    ++served_of_[os::address_key(client.address)];
  }
  const std::string peer = client.peer;  // it may end from within
  on_connection_(id, client.socket, peer, refusal);
}

// Those of the waiting ones that have a place now.
void Doors::let_in_waiting() {
  if (!std::exchange(place_free_, false)) {
    return;
  }
  for (std::size_t i = 0; i < waiting_.size();) {
    const std::uint64_t id = waiting_[i].id;
    if (!refusal_of(clients_.at(id).address).empty()) {
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    let_in(id, "");
  }
}

// Those that have waited long enough.
void Doors::refuse_waiting() {
  const SteadyTime now = running_clock().now();
  while (!waiting_.empty() && waiting_.front().until <= now) {
    const std::uint64_t id = waiting_.front().id;
    waiting_.pop_front();
    let_in(id, refusal_of(clients_.at(id).address));
  }
}

// Looks at the waiting ones as soon as a place is free, else when the first has waited long enough.
void Doors::wait_on() {
  if (waiting_.empty()) {
    wait_.reset();
    return;
  }
  const Duration left = waiting_.front().until - running_clock().now();
  wait_ =
      loop_.call_after(place_free_ ? Duration::zero() : std::max(left, Duration::zero()), [this] {
        loop_.name_callback("clients that wait for a place");
        let_in_waiting();
        refuse_waiting();
        wait_on();
      });
}

// Why no further connection of this address is served; empty if one is.
std::string Doors::refusal_of(const std::string& address) const {
  const std::size_t limit = options_.connections_max;
  if (served_ >= limit) {
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
