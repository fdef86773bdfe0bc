// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/client.h"

#include "client_call.h"

namespace phalanx::http {
namespace {

class CallHandle final : public Client::Call {
 public:
  explicit CallHandle(std::shared_ptr<ClientCall> call) : call_(std::move(call)) {}
  CallHandle(const CallHandle&) = delete;
  CallHandle& operator=(const CallHandle&) = delete;
  ~CallHandle() override { call_->drop(); }
  void cancel() override { call_->cancel(); }

 private:
  std::shared_ptr<ClientCall> call_;
};

class AsioClient final : public Client {
 public:
  AsioClient(os::EventLoop& loop, ClientOptions options)
      : core_(std::make_shared<ClientCore>(loop, options)) {}

  [[nodiscard]] std::unique_ptr<Call> send(ClientRequest request,
                                           ClientCallbacks callbacks) override {
    auto call = std::make_shared<ClientCall>(core_, std::move(request), std::move(callbacks));
    call->start();
    return std::make_unique<CallHandle>(std::move(call));
  }

 private:
  std::shared_ptr<ClientCore> core_;
};

}  // namespace

std::unique_ptr<Client> Client::create(os::EventLoop& loop, ClientOptions options) {
  return std::make_unique<AsioClient>(loop, options);
}

}  // namespace phalanx::http
