// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "phalanx/http/exchange.h"

#include "connection.h"

namespace phalanx::http {

// What a handler holds. The connection holds no reference to it, so dropping the last one is
// noticed.
class ExchangeHandle final : public Exchange {
 public:
  ExchangeHandle(std::shared_ptr<Connection> connection,
                 std::shared_ptr<ServerCore> core,
                 std::uint64_t serial)
      : connection_(std::move(connection)), core_(std::move(core)), serial_(serial) {}
  ExchangeHandle(const ExchangeHandle&) = delete;
  ExchangeHandle& operator=(const ExchangeHandle&) = delete;
  ~ExchangeHandle() override { connection_->handle_dropped(serial_); }

  void respond(Response response) override {
    complete_ = true;
    connection_->respond(serial_, std::move(response));
  }
  void start_stream(int status, Headers headers) override {
    connection_->start_stream(serial_, status, headers);
  }
  void write(std::string data) override { connection_->write(serial_, std::move(data)); }
  void finish() override {
    complete_ = true;
    connection_->finish(serial_);
  }
  [[nodiscard]] const Resumed* resumed() const override { return connection_->resumed(serial_); }
  void note(const HandlerNotes& notes) override { connection_->note(serial_, notes); }
  void hold(std::size_t bytes) override { connection_->hold(serial_, bytes); }
  [[nodiscard]] std::size_t pending_bytes() const override {
    return open() ? connection_->pending_bytes() : 0;
  }
  [[nodiscard]] bool open() const override { return connection_->is_current(serial_); }

  void on_close(std::function<void()> callback) override {
    if (complete_) {
      return;
    }
    if (open()) {
      connection_->on_close(serial_, std::move(callback));
    } else if (!core_->destroyed) {
      post_while_alive(core_, std::move(callback));
    }
  }

 private:
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<ServerCore> core_;
  std::uint64_t serial_;
  bool complete_ = false;
};

}  // namespace phalanx::http
