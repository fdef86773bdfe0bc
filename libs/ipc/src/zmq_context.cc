// SPDX-License-Identifier: Apache-2.0
#include "phalanx/ipc/zmq_context.h"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <latch>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "phalanx/os/unique_fd.h"

#include "zmq_socket.h"

namespace phalanx::ipc {

ZmqContext::ZmqContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ZmqContext::ZmqContext(ZmqContext&&) noexcept = default;
ZmqContext& ZmqContext::operator=(ZmqContext&&) noexcept = default;
ZmqContext::~ZmqContext() = default;

namespace {

// ZeroMQ aborts where its threads, their mailboxes and polls cannot be made, or the threads may not
// set the scheduling that they have: these are tried first.
constexpr std::size_t kContextDescriptors = 16;
constexpr int kThreads = 2;  // for input and output, and for closing sockets

int try_scheduling() {
  int policy = 0;
  sched_param parameters{};
  const int code = ::pthread_getschedparam(::pthread_self(), &policy, &parameters);
  return code != 0 ? code : ::pthread_setschedparam(::pthread_self(), policy, &parameters);
}

Status try_threads() {
  std::latch all(kThreads + 1);
  std::vector<std::thread> tried;
  std::atomic<int> refused = 0;
  Status status;
  const auto try_one = [&all, &refused] {
    if (const int code = try_scheduling(); code != 0) {
      refused = code;
    }
    all.arrive_and_wait();
  };
  try {
    for (int i = 0; i < kThreads; ++i) {
      tried.emplace_back(try_one);
    }
  } catch (const std::system_error& error) {
    status = errno_error("starting the threads of ZeroMQ (see ulimit -u)", error.code().value());
  }
  all.count_down(static_cast<std::ptrdiff_t>(kThreads + 1 - tried.size()));
  for (std::thread& thread : tried) {
    thread.join();
  }
  if (status && refused != 0) {
    return errno_error(
        "ZeroMQ's threads must be allowed sched_getscheduler and sched_setscheduler, which a "
        "filter of system "
        "calls refuses (systemd: SystemCallFilter=~@resources, or a container's profile)",
        refused);
  }
  return status;
}

// It makes its threads with the first socket: as long as what was tried still holds.
void make_threads(zmq::context_t& context) {
  const zmq::socket_t first(context, zmq::socket_type::pair);
}

}  // namespace

Result<ZmqContext> ZmqContext::create() {
  PHALANX_RETURN_IF_ERROR(os::require_descriptors(kContextDescriptors));
  PHALANX_RETURN_IF_ERROR(try_threads());
  try {
    auto impl = std::make_unique<Impl>();
    impl->context.set(zmq::ctxopt::io_threads, 1);
    impl->context.set(zmq::ctxopt::blocky, false);
    make_threads(impl->context);
    return ZmqContext(std::move(impl));
  } catch (const zmq::error_t& error) {
    return errno_error("ZeroMQ context", error.num());
  }
}

}  // namespace phalanx::ipc
