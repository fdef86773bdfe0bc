// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/http/client.h"
#include "phalanx/http/response_reader.h"

#include "asio.h"
#include "output_queue.h"

namespace phalanx::http {

// What the calls of one client share.
struct ClientCore {
  ClientCore(os::EventLoop& event_loop, ClientOptions client_options)
      : loop(event_loop), options(client_options) {}

  // A kept connection to `key` that is still open and silent, if there is one.
  [[nodiscard]] std::optional<Tcp::socket> take_idle(const std::string& key);
  void keep_idle(const std::string& key, Tcp::socket socket);

  os::EventLoop& loop;
  ClientOptions options;
  std::map<std::string, std::vector<Tcp::socket>> idle;
  std::size_t idle_count = 0;
  std::array<char, std::size_t{64} << 10> scratch{};
};

// One request under way. Pending operations hold it; it calls nobody once it has finished.
class ClientCall : public std::enable_shared_from_this<ClientCall> {
 public:
  ClientCall(std::shared_ptr<ClientCore> core, ClientRequest request, ClientCallbacks callbacks);
  ClientCall(const ClientCall&) = delete;
  ClientCall& operator=(const ClientCall&) = delete;
  ~ClientCall() = default;

  void start();
  void cancel();
  void drop();  // no callback any more

 private:
  void begin_attempt();
  void connect();
  void connect_to(const std::vector<Tcp::endpoint>& endpoints, std::size_t index);
  void on_connected();
  void flush();
  void wait_readable();
  void on_readable();
  void on_bytes(std::string_view bytes);
  [[nodiscard]] bool may_send_again() const;
  void on_peer_closed(const SystemError& error);
  void end(Status status);
  void close();
  [[nodiscard]] std::string where() const;
  [[nodiscard]] std::string head() const;

  std::shared_ptr<ClientCore> core_;
  ClientRequest request_;
  ClientCallbacks callbacks_;
  Tcp::socket socket_;
  Tcp::resolver resolver_;
  OutputQueue output_;
  std::string in_;  // a header that is not complete yet
  std::optional<ResponseReader> reader_;
  std::unique_ptr<os::EventLoop::Handle> connect_timer_;
  std::unique_ptr<os::EventLoop::Handle> total_timer_;
  bool head_told_ = false;
  bool reused_ = false;    // of an earlier call's connection
  bool received_ = false;  // a byte of the answer
  bool finished_ = false;
};

}  // namespace phalanx::http
