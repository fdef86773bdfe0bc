// SPDX-License-Identifier: Apache-2.0
// deploy/phalanx.toml is taken as it is, and so is what stands there behind a #.
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/settings/options.h"

#include "source_dir.h"
#include "support/temp_dir.h"

namespace phalanx::settings {
namespace {

TEST(SampleSettings, EveryKeyIsAFlagAndShowsItsDefault) {
  std::ifstream file(std::string(PHALANX_SOURCE_DIR) + "/deploy/phalanx.toml");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string all = std::regex_replace(text, std::regex("\n#([a-z-]+ = )"), "\n$1");
  ASSERT_NE(all, text);
  const test::TempDir folder;
  for (const std::string& settings : {text, all}) {
    Options options;
    flags::FlagTable table = make_flag_table(&options);
    const auto parsed =
        parse_options(&table, &options, {"--config", folder.write("phalanx.toml", settings)}, {});
    ASSERT_TRUE(parsed) << parsed.error().message();
    const Options unset;
    EXPECT_EQ(options.model, "/srv/models/MODEL");
    EXPECT_EQ(options.dp, unset.dp);
    EXPECT_EQ(options.tp, unset.tp);
    EXPECT_EQ(options.host, unset.host);
    EXPECT_EQ(options.port, unset.port);
    EXPECT_EQ(options.max_model_len, unset.max_model_len);
    EXPECT_EQ(options.kv_cache_memory_bytes, unset.kv_cache_memory_bytes);
    EXPECT_EQ(options.shutdown_timeout_s, unset.shutdown_timeout_s);
    EXPECT_EQ(options.log_level, unset.log_level);
  }
}

}  // namespace
}  // namespace phalanx::settings
