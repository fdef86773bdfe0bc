// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "phalanx/openai/requests.h"

#include "fields.h"

namespace phalanx::openai {

// Writes the checked messages into `out`, as TemplateInput says, and that the final one is to be
// continued where it has "prefix": true.
[[nodiscard]] Refusal read_messages(const Field& field,
                                    std::size_t messages_max,
                                    std::vector<std::string>* ignored,
                                    TemplateInput* out);

}  // namespace phalanx::openai
