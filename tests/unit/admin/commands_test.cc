// SPDX-License-Identifier: Apache-2.0
#include "phalanx/admin/commands.h"

#include <gtest/gtest.h>

namespace phalanx::admin {
namespace {

TEST(AdminCommand, ComesBackFromItsLine) {
  for (const AdminCommand& command : {AdminCommand{"status"},
                                      AdminCommand{"ping"},
                                      AdminCommand{"drain", 3},
                                      AdminCommand{"reload"},
                                      AdminCommand{"reload", 0, true, ""},
                                      AdminCommand{"reload", 0, true, "/opt/phalanx-front"}}) {
    const auto read = parse_admin_command(admin_line(command));
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(read->name, command.name);
    EXPECT_EQ(read->replica, command.replica);
    EXPECT_EQ(read->fronts, command.fronts);
    EXPECT_EQ(read->program, command.program);
  }
}

TEST(AdminCommand, ReloadWithoutFieldsIsThatOfTheReplicas) {
  const auto read = parse_admin_command(R"({"command": "reload"})");
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->fronts);
}

TEST(AdminCommand, WhatNobodySendsIsRefused) {
  for (const char* line : {"",
                           "[]",
                           R"({"command": 7})",
                           R"({"command": "stop"})",
                           R"({"command": "drain"})",
                           R"({"command": "drain", "replica": -1})",
                           R"({"command": "reload", "fronts": 1})",
                           R"({"command": "reload", "fronts": true, "program": 7})",
                           R"({"command": "reload", "fronts": true, "program": "front"})",
                           R"({"command": "reload", "program": "/opt/phalanx-front"})"}) {
    EXPECT_FALSE(parse_admin_command(line)) << line;
  }
}

}  // namespace
}  // namespace phalanx::admin
