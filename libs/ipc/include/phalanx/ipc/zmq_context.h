// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "phalanx/base/result.h"

namespace phalanx::ipc {

// The ZeroMQ context of a process: its I/O thread. One per process, made after the last exec and
// before the first channel, destroyed after the last one.
//
// Threads: channels of different threads may share it.
class ZmqContext {
 public:
  // Errors: kResourceExhausted  no descriptors, none that epoll can watch, or no threads left
  [[nodiscard]] static Result<ZmqContext> create();

  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;
  ZmqContext(ZmqContext&&) noexcept;
  ZmqContext& operator=(ZmqContext&&) noexcept;
  ~ZmqContext();

  // For the channels of this library only.
  struct Impl;
  [[nodiscard]] Impl& impl() { return *impl_; }

 private:
  explicit ZmqContext(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace phalanx::ipc
