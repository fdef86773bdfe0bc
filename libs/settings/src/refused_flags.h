// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/flags/flag_table.h"

namespace phalanx::settings {

// Flags of vllm serve: whoever brings a command line over reads why one is not needed, or what to
// use. A value that asks for what happens anyway is taken.
void refuse_foreign_flags(flags::FlagTable* table);

}  // namespace phalanx::settings
