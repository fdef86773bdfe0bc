// SPDX-License-Identifier: Apache-2.0
#include "server_call.h"

#include "phalanx/admin/admin_call.h"
#include "phalanx/admin/commands.h"

namespace phalanx::app {

Result<wire::AdminAnswer> call(const CtlOptions& options,
                               const wire::AdminRequest& request,
                               Duration timeout) {
  const admin::AdminAddress server{static_cast<std::uint32_t>(options.uid),
                                   static_cast<std::uint16_t>(options.port)};
  return admin::admin_call(server, request, timeout);
}

Result<wire::ServerStatus> ask_status(const CtlOptions& options, Duration timeout) {
  PHALANX_TRY(const wire::AdminAnswer answer,
              call(options, {wire::AdminCommand::kStatus}, timeout));
  const auto* const status = std::get_if<wire::ServerStatus>(&answer);
  if (status == nullptr) {
    PHALANX_RETURN_IF_ERROR(admin::outcome_of(answer));
    return data_loss("the server's status could not be read: it sent none");
  }
  return *status;
}

}  // namespace phalanx::app
