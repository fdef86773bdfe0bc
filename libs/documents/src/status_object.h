// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "phalanx/wire/admin_messages.h"

namespace phalanx::documents {

// The document before it is text. Its texts are as they came, and need not be UTF-8.
[[nodiscard]] nlohmann::json status_object(const wire::ServerStatus& status);

}  // namespace phalanx::documents
