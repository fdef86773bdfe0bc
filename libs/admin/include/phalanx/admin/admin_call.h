// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/wire/admin_messages.h"

namespace phalanx::admin {

// Where a client finds a server, and whose it must be.
struct AdminAddress {
  std::uint32_t uid = 0;
  std::uint16_t port = 0;
};

// Sends the request to that server and returns its answer. Anybody may take a name in the abstract
// namespace: nothing is sent to, or taken from, a process of another user than `uid` and root.
//
// Blocks: at most `timeout`.
// Errors: kInvalidArgument if wire::check() refuses the request; kNotFound no such server;
// kFailedPrecondition another user's, or of another version; kDeadlineExceeded, of a server that
// takes no connection too; kUnavailable it hung up without an answer; kDataLoss the answer cannot
// be read. The texts of an answer may hold any bytes.
[[nodiscard]] Result<wire::AdminAnswer> admin_call(const AdminAddress& server,
                                                   const wire::AdminRequest& request,
                                                   Duration timeout);

}  // namespace phalanx::admin
