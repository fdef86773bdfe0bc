// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/exception_error.h"

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(ExceptionError, WhatIsRefusedIsNoDefect) {
  EXPECT_EQ(error_of(std::bad_alloc()).code(), Code::kResourceExhausted);
  const Error thread = error_of(std::system_error(EAGAIN, std::generic_category()));
  EXPECT_EQ(thread.code(), Code::kResourceExhausted);
  EXPECT_NE(thread.message().find("ulimit -u"), std::string::npos) << thread.message();
}

TEST(ExceptionError, AllElseIs) {
  const Error error = error_of(std::runtime_error("a part said this"));
  EXPECT_EQ(error.code(), Code::kInternal);
  EXPECT_EQ(error.message(), "unexpected: a part said this");
  EXPECT_EQ(error_of(std::system_error(EINVAL, std::generic_category())).code(), Code::kInternal);
}

}  // namespace
}  // namespace phalanx
