// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "regular_file.h"

namespace phalanx::os {

namespace {

Error no_regular_file(const std::string& path) {
  return invalid_argument(path + ": expected a file, found a folder, pipe or device");
}

bool is_regular(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

Error cannot_open(const std::string& path, int error) {
  if (error == ENXIO) {  // a socket
    return no_regular_file(path);
  }
  if (error == ENOENT && has_entry(path)) {
    return not_found(path + ": expected a file, found a link that leads nowhere");
  }
  return errno_error(path, error);
}

}  // namespace

Result<RegularFile> open_regular_file(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_NOCTTY | O_CLOEXEC;
  // Without waiting: a pipe is opened only when somebody writes to it.
  UniqueFd fd(::open(path.c_str(), kFlags | O_NONBLOCK));
  // Another process has a lease on the file, which the kernel makes it give back.
  if (!fd.valid() && errno == EWOULDBLOCK && is_regular(path)) {
    fd = UniqueFd(::open(path.c_str(), kFlags));
  }
  if (!fd.valid()) {
    return cannot_open(path, errno);
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    return errno_error(path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return no_regular_file(path);
  }
  return RegularFile{std::move(fd), static_cast<std::size_t>(status.st_size)};
}

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  PHALANX_TRY(const RegularFile file, open_regular_file(path));
  std::string contents;
  std::array<char, 65536> buffer{};
  // Read to the end and not to the size asked for before: the file may change in between.
  for (;;) {
    const ssize_t count = ::read(file.fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return errno_error(path, errno);
    }
    if (count == 0) {
      return contents;
    }
    contents.append(buffer.data(), static_cast<std::size_t>(count));
    if (contents.size() > bytes_max) {
      return invalid_argument(path + ": expected at most " + std::to_string(bytes_max) +
                              " bytes, found " +
                              std::to_string(std::max(contents.size(), file.size)));
    }
  }
}

bool has_entry(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 || errno != ENOENT;
}

}  // namespace phalanx::os
