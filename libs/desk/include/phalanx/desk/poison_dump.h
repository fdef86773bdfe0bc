// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "phalanx/base/result.h"
#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/os/private_folder.h"

namespace phalanx::desk {

// Writes down requests that end what computes them, one file each (proto/poison-dump.md), so that
// the defect can be found: ids and parameters, no text. Only their owner can read the files. At
// most kMaxFiles of them remain, the newest; one is as large as its ids, 4 bytes each.
//
// Threads: one.
// Blocks: for a small file; it follows the death of a process.
class PoisonDump {
 public:
  static constexpr std::size_t kMaxFiles = 16;

  explicit PoisonDump(std::string folder) : folder_(std::move(folder), "poisoned-", kMaxFiles) {}

  // As os::PrivateFolder.
  [[nodiscard]] Status check() const { return folder_.check(); }
  // The path of the new file.
  [[nodiscard]] Result<std::string> write(const dispatch::PoisonedChoice& choice);

 private:
  os::PrivateFolder folder_;
  std::uint32_t written_ = 0;
};

// For DispatcherOptions: writes into `folder` and logs where, or why not. Warns at once where it
// could not.
[[nodiscard]] std::function<void(const dispatch::PoisonedChoice&)> dump_poisoned(
    std::string folder);

}  // namespace phalanx::desk
