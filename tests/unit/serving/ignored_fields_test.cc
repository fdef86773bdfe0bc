// SPDX-License-Identifier: Apache-2.0
#include "ignored_fields.h"

#include <gtest/gtest.h>

#include "phalanx/obs/log.h"

namespace phalanx::serving {
namespace {

TEST(IgnoredFields, AreNamedInOneHeaderThatIsBoundedAndVisible) {
  EXPECT_EQ(ignored_fields_text({}), "");
  EXPECT_EQ(ignored_fields_text({"presence_penality", "grammar"}), "presence_penality,grammar");
  EXPECT_EQ(ignored_fields_text({"a b", "c,d", "e\r\nset-cookie: f", "\xc3\xbc"}),
            "a?b,c?d,e??set-cookie:?f,??");
  const std::string many = ignored_fields_text(std::vector<std::string>(200, "some_field"));
  EXPECT_LE(many.size(), 512U);
  EXPECT_TRUE(many.ends_with(",...")) << many;
  EXPECT_EQ(ignored_fields_text({std::string(1000, 'x')}), "...");
}

TEST(IgnoredFields, AreRefusedByName) {
  EXPECT_FALSE(refuse_unknown({}));
  const auto refusal = refuse_unknown({"presence_penality", "grammar"});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->http_status, 400);
  EXPECT_EQ(refusal->param, "presence_penality");
  EXPECT_NE(refusal->message.find("--strict-api"), std::string::npos);
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) {
    ++count;
  }
  return count;
}

TEST(IgnoredFields, AreLoggedOnceEachAndNotWithoutEnd) {
  IgnoredFields fields;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    fields.note("/v1/completions", {"grammar", "max_new_tokens"});
  }
  std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(log, "unknown_field"), 2U) << log;
  EXPECT_EQ(count_of(log, "field=grammar"), 1U) << log;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) {
    fields.note("/v1/completions", {"f" + std::to_string(i)});
  }
  log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(log, "unknown_field"), 254U);
}

}  // namespace
}  // namespace phalanx::serving
