// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>

#include "phalanx/base/result.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

// What the manager that started this program as a service, as systemd does, is told of it by the
// protocol of sd_notify(3): datagrams of assignments, to a socket that the environment names.
//
// Threads: one at a time.
// Blocks: never. What a full socket does not take is kept, in its order, for the next call.
class ServiceNotice {
 public:
  // To the socket that $NOTIFY_SOCKET names; nobody is told where it is not set. Children do not
  // get the variable (see child_process.h), so that no other process speaks for the service.
  [[nodiscard]] static ServiceNotice from_environment();

  // `address` is an absolute path, an abstract name behind '@', or empty, for nobody.
  explicit ServiceNotice(std::string address) : address_(std::move(address)) {}

  // Tells `assignments`, one a line, as in "READY=1\nSTATUS=serving".
  // Errors: kInvalidArgument for an address of another kind; else what the kernel says, as where
  // nobody listens. The news are then dropped.
  [[nodiscard]] Status tell(std::string assignments);

  // Tells what was kept. Errors as of tell().
  [[nodiscard]] Status tell_kept();

 private:
  std::string address_;
  UniqueFd socket_;
  std::deque<std::string> kept_;  // oldest first; one datagram each
};

}  // namespace phalanx::os
