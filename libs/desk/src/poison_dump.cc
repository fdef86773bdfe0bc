// SPDX-License-Identifier: Apache-2.0
#include "phalanx/desk/poison_dump.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "phalanx/base/clock.h"
#include "phalanx/obs/log.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/error_text.h"
#include "phalanx/wire/frame_header.h"
#include "phalanx/wire/limits.h"

namespace phalanx::desk {

namespace {

Result<std::string> content_of(const dispatch::PoisonedChoice& choice) {
  const dispatch::Generation& generation = choice.generation;
  wire::PoisonedRequest record;
  record.error = wire::error_text(choice.error.message());
  record.label = generation.label.substr(0, wire::kMaxNameBytes);
  record.request = choice.request;
  record.choice = choice.choice;
  record.sampling = generation.sampling;
  record.stop = generation.stop;
  record.prompt_ids = generation.prompt_ids;
  record.produced_ids = choice.produced;
  PHALANX_RETURN_IF_ERROR(wire::check(record));
  return wire::with_header(wire::encode(record));
}

}  // namespace

Result<std::string> PoisonDump::write(const dispatch::PoisonedChoice& choice) {
  PHALANX_TRY(const std::string content, content_of(choice));
  char name[64];
  std::snprintf(name,
                sizeof name,
                "%013lld-%d-%06u.dump",
                static_cast<long long>(1000 * unix_seconds()),
                static_cast<int>(::getpid()),
                ++written_);
  return folder_.write(name, content);
}

std::function<void(const dispatch::PoisonedChoice&)> dump_poisoned(std::string folder) {
  auto dump = std::make_shared<PoisonDump>(std::move(folder));
  if (const Status usable = dump->check(); !usable) {
    obs::log_warn("dump_dir_unusable", {{"cause", usable.error().message()}});
  }
  return [dump](const dispatch::PoisonedChoice& choice) {
    const Result<std::string> path = dump->write(choice);
    obs::log_error("poisoned_request",
                   {{"req", choice.generation.label},
                    {"number", choice.request.value()},
                    {"choice", choice.choice},
                    {"dump", path ? *path : ""},
                    {"dump_error", path ? "" : path.error().message()}});
  };
}

}  // namespace phalanx::desk
