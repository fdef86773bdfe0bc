// SPDX-License-Identifier: Apache-2.0
#include "phalanx/desk/poison_dump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/unique_fd.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/error_text.h"
#include "phalanx/wire/frame_header.h"
#include "phalanx/wire/limits.h"

namespace phalanx::desk {

namespace {

constexpr std::string_view kPrefix = "poisoned-";
constexpr std::string_view kUnfinished = ".part";

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

Status write_all(const std::string& path, std::string_view content) {
  os::UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return errno_error("making " + path, errno);
  }
  while (!content.empty()) {
    const ssize_t count = ::write(file.get(), content.data(), content.size());
    if (count < 0 && errno != EINTR) {
      return errno_error("writing " + path, errno);
    }
    content.remove_prefix(count < 0 ? 0 : static_cast<std::size_t>(count));
  }
  // Some file systems tell only here that they have no room.
  return ::close(file.release()) == 0 ? ok() : errno_error("writing " + path, errno);
}

// The file is there as a whole or not at all.
Status write_whole(const std::string& path, std::string_view content) {
  const std::string unfinished = path + std::string(kUnfinished);
  Status written = write_all(unfinished, content);
  if (written && ::rename(unfinished.c_str(), path.c_str()) != 0) {
    written = errno_error("naming " + path, errno);
  }
  if (!written) {
    ::unlink(unfinished.c_str());
  }
  return written;
}

}  // namespace

Result<std::string> PoisonDump::write(const dispatch::PoisonedChoice& choice) {
  PHALANX_TRY(const std::string content, content_of(choice));
  PHALANX_RETURN_IF_ERROR(make_folder());
  char name[64];
  std::snprintf(name,
                sizeof name,
                "%013lld-%d-%06u.dump",
                static_cast<long long>(1000 * unix_seconds()),
                static_cast<int>(::getpid()),
                ++written_);
  const std::string path = folder_ + "/" + std::string(kPrefix) + name;
  const Status written = write_whole(path, content);
  remove_oldest(path);
  PHALANX_RETURN_IF_ERROR(written);
  return path;
}

Status PoisonDump::check() const {
  std::filesystem::path place = folder_;
  std::error_code error;
  while (!std::filesystem::exists(place, error) && place.has_relative_path()) {
    place = place.parent_path();
  }
  const std::string there = place.empty() ? "." : place.string();
  if (!std::filesystem::is_directory(there, error)) {
    return failed_precondition(there + " is no folder");
  }
  if (::access(there.c_str(), W_OK | X_OK) != 0) {
    return errno_error("writing into the folder " + there, errno);
  }
  return ok();
}

// A folder below /tmp may have been made by somebody else.
Status PoisonDump::make_folder() const {
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder_, error);
  if (error) {
    return errno_error("making the folder " + folder_, error.value());
  }
  if (made && ::chmod(folder_.c_str(), 0700) != 0) {
    return errno_error("closing the folder " + folder_, errno);
  }
  struct stat found {};
  if (::lstat(folder_.c_str(), &found) != 0) {
    return errno_error("looking at the folder " + folder_, errno);
  }
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::getuid()) {
    return failed_precondition(folder_ + " must be a folder of the user who runs the server");
  }
  return ok();
}

// By name, which begins with the time; never `kept`, as the clock may have been set back. What
// cannot be removed stays.
void PoisonDump::remove_oldest(const std::string& kept) const {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(folder_, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with(kPrefix)) {
      names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  std::stable_partition(
      names.begin(), names.end(), [&](const auto& name) { return folder_ + "/" + name != kept; });
  for (std::size_t i = 0; i + kMaxFiles < names.size(); ++i) {
    ::unlink((folder_ + "/" + names[i]).c_str());
  }
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
