// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/service_notice.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace phalanx::os {

namespace {

struct NoticeAddress {
  sockaddr_un name{};
  socklen_t size = 0;
};

Result<NoticeAddress> parse_address(const std::string& text) {
  NoticeAddress result;
  const bool is_abstract = text.starts_with('@');
  // An abstract name ends with its size, a path with a zero.
  const std::size_t size = is_abstract ? text.size() : text.size() + 1;
  if (text.size() < 2 || (!is_abstract && !text.starts_with('/')) ||
      size > sizeof result.name.sun_path) {
    return invalid_argument(
        "NOTIFY_SOCKET: expected an absolute path or an abstract name behind @, of at most " +
        std::to_string(sizeof result.name.sun_path - 1) + " bytes, found \"" + text + "\"");
  }
  result.name.sun_family = AF_UNIX;
  std::memcpy(&result.name.sun_path[0], text.data(), text.size());
  if (is_abstract) {
    result.name.sun_path[0] = '\0';
  }
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size);
  return result;
}

}  // namespace

ServiceNotice ServiceNotice::from_environment() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  const char* const address = std::getenv("NOTIFY_SOCKET");
  return ServiceNotice(address == nullptr ? "" : address);
}

Status ServiceNotice::tell(std::string assignments) {
  if (address_.empty()) {
    return ok();
  }
  kept_.push_back(std::move(assignments));
  return tell_kept();
}

Status ServiceNotice::tell_kept() {
  while (!kept_.empty()) {
    auto address = parse_address(address_);
    if (!address) {
      kept_.clear();
      return std::move(address).error();
    }
    if (!socket_.valid()) {
      socket_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    }
    const std::string& news = kept_.front();
    const auto* const to = reinterpret_cast<const sockaddr*>(&address->name);
    if (!socket_.valid() ||
        ::sendto(socket_.get(), news.data(), news.size(), MSG_NOSIGNAL, to, address->size) < 0) {
      const int reason = errno;
      if (reason == EAGAIN || reason == EINTR) {
        return ok();
      }
      kept_.clear();
      return errno_error("telling the service manager at " + address_, reason);
    }
    kept_.pop_front();
  }
  return ok();
}

}  // namespace phalanx::os
