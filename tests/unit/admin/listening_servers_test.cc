// SPDX-License-Identifier: Apache-2.0
#include "listening_servers.h"

#include <gtest/gtest.h>

namespace phalanx::admin {
namespace {

const std::string kHeader = "Num       RefCount Protocol Flags    Type St Inode Path\n";

std::string listener(const std::string& path) {
  return "00000000df0710d6: 00000002 00000000 00010000 0001 01 15891 " + path + "\n";
}

TEST(ListeningServers, AreThoseWhoseNameIsOne) {
  const std::string connection =
      "00000000a8d4ddd6: 00000003 00000000 00000000 0001 03 15892 @phalanx-admin-7-9000\n";
  const auto servers = listening_servers(
      kHeader + "00000000efab9677: 00000003 00000000 00000000 0005 03 6037036\n" +
      listener("@phalanx-admin-61234-8000") + connection + listener("/run/phalanx-admin-1-2") +
      listener("@phalanx-admin-0-8001") + listener("@phalanx-admin-61234-8000"));
  ASSERT_EQ(servers.size(), 2U);
  EXPECT_EQ(servers[0].uid, 0U);
  EXPECT_EQ(servers[0].port, 8001U);
  EXPECT_EQ(servers[1].uid, 61234U);
  EXPECT_EQ(servers[1].port, 8000U);
}

TEST(ListeningServers, WhateverStandsThereIsNone) {
  for (const char* name : {"@phalanx-admin-1-65536",
                           "@phalanx-admin-4294967296-1",
                           "@phalanx-admin--1-80",
                           "@phalanx-admin-+1-80",
                           "@phalanx-admin-01-80",
                           "@phalanx-admin-1-080",
                           "@phalanx-admin-1-80x",
                           "@phalanx-admin-1-80 x",
                           "@phalanx-admin-1-",
                           "@phalanx-admin-1",
                           "@phalanx-admin-",
                           "@x-phalanx-admin-1-80",
                           "@",
                           "-",
                           "--",
                           "@phalanx-admin-1-80@",
                           "@phalanx-admin-1-80\x1b[2J",
                           ""}) {
    EXPECT_TRUE(listening_servers(listener(name)).empty()) << name;
  }
  EXPECT_TRUE(listening_servers("").empty());
  EXPECT_TRUE(listening_servers("@phalanx-admin-1-80").empty());
  EXPECT_TRUE(listening_servers("a b c 10000 d e @phalanx-admin-1-80").empty());
  EXPECT_TRUE(listening_servers("a b c x0000 d e f @phalanx-admin-1-80").empty());
  EXPECT_TRUE(listening_servers(std::string(1 << 20, '\0')).empty());
}

TEST(ListeningServers, AreNamedWithTheWayToThem) {
  EXPECT_EQ(advice_of({}, 0), "");
  EXPECT_EQ(advice_of({{61234, 8000}}, 0),
            "there is one of user 61234 at port 8000: phalanxctl --uid 61234 --port 8000");
  EXPECT_EQ(advice_of({{7, 8001}}, 7), "there is one at port 8001: phalanxctl --port 8001");
  EXPECT_EQ(advice_of({{7, 1}, {8, 2}}, 7),
            "there is one at port 1: phalanxctl --port 1; one of user 8 at port 2: phalanxctl "
            "--uid 8 --port 2");
  const std::string six = advice_of({{7, 1}, {7, 2}, {7, 3}, {7, 4}, {7, 5}, {7, 6}}, 7);
  EXPECT_EQ(six.find("--port 5"), std::string::npos) << six;
  EXPECT_TRUE(six.ends_with("--port 4; and 2 more")) << six;
}

}  // namespace
}  // namespace phalanx::admin
