// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/base/result.h"
#include "phalanx/wire/poisoned_request.h"

namespace phalanx::documents {

// Reads a file that the leader has left in its --dump-dir.
// Blocks: for the file.
// Errors: kNotFound or those of the file system; kFailedPrecondition if it is of another version of
// the protocol; kDataLoss if it is no such file; each names the path.
[[nodiscard]] Result<wire::PoisonedRequest> read_dump(const std::string& path);

// As one line of JSON in ASCII, which a terminal can show whatever it holds. The fields are those
// of proto/poison-dump.md.
[[nodiscard]] std::string poison_json(const wire::PoisonedRequest& request);

}  // namespace phalanx::documents
