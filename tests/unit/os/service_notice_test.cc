// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/service_notice.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace phalanx::os {
namespace {

// A service manager: a socket at `address`, as NOTIFY_SOCKET has it.
class Manager {
 public:
  explicit Manager(const std::string& address)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(&name.sun_path[0], address.data(), address.size());
    const bool is_abstract = address[0] == '@';
    if (is_abstract) {
      name.sun_path[0] = '\0';
    }
    const std::size_t size = offsetof(sockaddr_un, sun_path) + address.size() + !is_abstract;
    EXPECT_EQ(
        ::bind(
            socket_.get(), reinterpret_cast<const sockaddr*>(&name), static_cast<socklen_t>(size)),
        0);
  }

  // The datagrams that are there.
  std::vector<std::string> heard() {
    std::vector<std::string> all;
    std::array<char, 4096> bytes{};
    for (ssize_t count = 0; (count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0)) >= 0;) {
      all.emplace_back(bytes.data(), static_cast<std::size_t>(count));
    }
    return all;
  }

 private:
  UniqueFd socket_;
};

using Heard = std::vector<std::string>;

TEST(ServiceNotice, TellsASocketInAFolderAndOneWithAnAbstractName) {
  const test::TempDir folder;
  for (const std::string& address : {folder.path().string() + "/notify",
                                     "@service-notice-test-" + std::to_string(::getpid()),
                                     "@" + std::string(107, 'x') /* the longest */}) {
    Manager manager(address);
    ServiceNotice notice(address);
    EXPECT_TRUE(notice.tell("STATUS=loading"));
    EXPECT_TRUE(notice.tell("READY=1\nSTATUS=ready"));
    EXPECT_EQ(manager.heard(), (Heard{"STATUS=loading", "READY=1\nSTATUS=ready"})) << address;
  }
}

TEST(ServiceNotice, TellsNobodyWhereTheEnvironmentNamesNobody) {
  ASSERT_EQ(::unsetenv("NOTIFY_SOCKET"), 0);
  ServiceNotice notice = ServiceNotice::from_environment();
  EXPECT_TRUE(notice.tell("READY=1"));
  EXPECT_TRUE(notice.tell_kept());
}

TEST(ServiceNotice, TellsWhomTheEnvironmentNames) {
  const test::TempDir folder;
  const std::string address = folder.path().string() + "/notify";
  Manager manager(address);
  ASSERT_EQ(::setenv("NOTIFY_SOCKET", address.c_str(), 1), 0);
  ServiceNotice notice = ServiceNotice::from_environment();
  ASSERT_EQ(::unsetenv("NOTIFY_SOCKET"), 0);
  EXPECT_TRUE(notice.tell("READY=1"));
  EXPECT_EQ(manager.heard(), Heard{"READY=1"});
}

TEST(ServiceNotice, KeepsWhatAFullSocketDoesNotTakeAndItsOrder) {
  const test::TempDir folder;
  const std::string address = folder.path().string() + "/notify";
  Manager manager(address);
  ServiceNotice notice(address);
  Heard told;
  for (int i = 0; i < 2000; ++i) {  // more than any queue of datagrams holds
    told.push_back("STATUS=" + std::to_string(i));
    ASSERT_TRUE(notice.tell(told.back()));
  }
  Heard heard = manager.heard();
  ASSERT_LT(heard.size(), told.size());
  while (heard.size() < told.size()) {
    ASSERT_TRUE(notice.tell_kept());
    const Heard more = manager.heard();
    ASSERT_FALSE(more.empty());
    heard.insert(heard.end(), more.begin(), more.end());
  }
  EXPECT_EQ(heard, told);
}

TEST(ServiceNotice, SaysThatNobodyListensAndKeepsNothing) {
  const test::TempDir folder;
  ServiceNotice notice(folder.path().string() + "/notify");
  const Status told = notice.tell("READY=1");
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code(), Code::kNotFound);
  EXPECT_NE(told.error().message().find("/notify: No such file"), std::string::npos)
      << told.error().message();
  EXPECT_TRUE(notice.tell_kept());
}

TEST(ServiceNotice, RefusesAnAddressOfAnotherKind) {
  for (const std::string& address : {std::string("vsock:2:1234"),
                                     std::string("notify"),
                                     std::string("@"),
                                     std::string("/"),
                                     "/" + std::string(107, 'x'),
                                     "@" + std::string(108, 'x')}) {
    const Status told = ServiceNotice(address).tell("READY=1");
    ASSERT_FALSE(told) << address;
    EXPECT_EQ(told.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(told.error().message(),
              "NOTIFY_SOCKET: expected an absolute path or an abstract name behind @, of at most "
              "107 bytes, found \"" +
                  address + "\"");
  }
}

}  // namespace
}  // namespace phalanx::os
