// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

namespace {

constexpr std::string_view kUnfinished = ".part";

Status write_all(const std::string& path, std::string_view content) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
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

PrivateFolder::PrivateFolder(std::string path, std::string prefix, std::size_t files_max)
    : path_(std::move(path)), prefix_(std::move(prefix)), files_max_(files_max) {}

Result<std::string> PrivateFolder::write(const std::string& name, std::string_view content) const {
  PHALANX_RETURN_IF_ERROR(make());
  std::string path = path_ + "/" + prefix_ + name;
  const Status written = write_whole(path, content);
  remove_first(path);
  PHALANX_RETURN_IF_ERROR(written);
  return path;
}

Status PrivateFolder::check() const {
  std::filesystem::path place = path_;
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
Status PrivateFolder::make() const {
  std::error_code error;
  const bool made = std::filesystem::create_directories(path_, error);
  if (error) {
    return errno_error("making the folder " + path_, error.value());
  }
  if (made && ::chmod(path_.c_str(), 0700) != 0) {
    return errno_error("closing the folder " + path_, errno);
  }
  struct stat found {};
  if (::lstat(path_.c_str(), &found) != 0) {
    return errno_error("looking at the folder " + path_, errno);
  }
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::getuid()) {
    return failed_precondition(path_ + " must be a folder of the user who runs the server");
  }
  return ok();
}

// What cannot be removed stays.
void PrivateFolder::remove_first(const std::string& kept) const {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(path_, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with(prefix_)) {
      names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  std::stable_partition(
      names.begin(), names.end(), [&](const auto& name) { return path_ + "/" + name != kept; });
  for (std::size_t i = 0; i + files_max_ < names.size(); ++i) {
    ::unlink((path_ + "/" + names[i]).c_str());
  }
}

}  // namespace phalanx::os
