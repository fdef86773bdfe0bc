// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/error.h"

#include <cerrno>
#include <set>

#include <gtest/gtest.h>

namespace phalanx {
namespace {

constexpr Code kAll[] = {Code::kCancelled,
                         Code::kInvalidArgument,
                         Code::kDeadlineExceeded,
                         Code::kNotFound,
                         Code::kResourceExhausted,
                         Code::kFailedPrecondition,
                         Code::kAborted,
                         Code::kUnimplemented,
                         Code::kInternal,
                         Code::kUnavailable,
                         Code::kDataLoss};

TEST(ErrorTraits, NamesEveryCodeOnce) {
  std::set<std::string_view> names;
  for (const Code code : kAll) {
    EXPECT_TRUE(names.insert(error_traits(code).name).second) << error_traits(code).name;
    EXPECT_GE(error_traits(code).http_status, 400);
  }
}

TEST(ErrorTraits, GivesSuccessOnlyToACancelledProcess) {
  for (const Code code : kAll) {
    EXPECT_EQ(error_traits(code).exit_status == 0, code == Code::kCancelled);
  }
}

TEST(ErrorTraits, TakesAnUnknownCodeForADefect) {
  EXPECT_EQ(error_traits(static_cast<Code>(999)).name, "internal");
}

TEST(Error, CarriesContextsOutermostFirst) {
  const Error error = data_loss("short read").with("shard 3 of 8").with("loading");
  EXPECT_EQ(error.message(), "loading: shard 3 of 8: short read");
  EXPECT_EQ(error.to_string(), "data_loss: loading: shard 3 of 8: short read");
  EXPECT_EQ(error.code(), Code::kDataLoss);
}

TEST(Error, ExplainsAnErrno) {
  const Error error = errno_error("opening x", ENOENT);
  EXPECT_EQ(error.code(), Code::kNotFound);
  EXPECT_EQ(error.message(), "opening x: No such file or directory (errno 2)");
  EXPECT_EQ(errno_error("x", EMFILE).code(), Code::kResourceExhausted);
  EXPECT_EQ(errno_error("x", EADDRINUSE).code(), Code::kFailedPrecondition);
  EXPECT_EQ(errno_error("x", ECONNREFUSED).code(), Code::kUnavailable);
  EXPECT_EQ(errno_error("x", ETIMEDOUT).code(), Code::kDeadlineExceeded);
  EXPECT_EQ(errno_error("x", EINVAL).code(), Code::kInvalidArgument);
  EXPECT_EQ(errno_error("x", ENAMETOOLONG).code(), Code::kInvalidArgument);
  EXPECT_EQ(errno_error("x", ELOOP).code(), Code::kNotFound);
  EXPECT_EQ(errno_error("x", EIO).code(), Code::kInternal);
}

}  // namespace
}  // namespace phalanx
