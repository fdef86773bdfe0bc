// SPDX-License-Identifier: Apache-2.0
// Settings from the environment, which is not ours alone.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "phalanx/flags/flag_table.h"

namespace phalanx::flags {
namespace {

using Environment = std::map<std::string, std::string>;

struct Settings {
  std::int64_t dp = 1;
  std::int64_t port = 8000;
  std::int64_t max_num_seqs = 64;
  bool progress = true;
};

struct Outcome {
  Settings settings;
  std::string error;  // empty if parse() succeeded
  std::vector<std::string> warnings;
  std::vector<std::string> infos;
};

Outcome parsed(const Environment& environment, const std::vector<std::string>& arguments = {}) {
  Outcome outcome;
  FlagTable table("program", "Does something.", "PHALANX_");
  table.add_int("data-parallel-size,dp", &outcome.settings.dp, 1, 64, "Replicas");
  table.add_int("port", &outcome.settings.port, 1, 65535, "Port");
  table.add_int("max-num-seqs", &outcome.settings.max_num_seqs, 1, 4096, "Sequences");
  table.add_switch("progress", &outcome.settings.progress, "Progress");
  table.refuse("master-port", "all processes run on one host");
  table.refuse("api-key", "there are no keys");
  table.allow_environment("PHALANX_LOAD_");
  table.allow_environment("PHALANX_OTHER");
  const auto result = table.parse(arguments, environment);
  outcome.error = result ? "" : result.error().message();
  for (const FlagTable::Note& note : table.notes()) {
    (note.is_warning ? outcome.warnings : outcome.infos).push_back(note.text);
  }
  return outcome;
}

// What kubelet puts into every container for the services "phalanx" and "phalanx-master".
const Environment kServices = {{"PHALANX_SERVICE_HOST", "10.96.7.8"},
                               {"PHALANX_SERVICE_PORT", "8000"},
                               {"PHALANX_SERVICE_PORT_HTTP", "8000"},
                               {"PHALANX_PORT", "tcp://10.96.7.8:8000"},
                               {"PHALANX_PORT_8000_TCP", "tcp://10.96.7.8:8000"},
                               {"PHALANX_PORT_8000_TCP_PROTO", "tcp"},
                               {"PHALANX_PORT_8000_TCP_PORT", "8000"},
                               {"PHALANX_PORT_8000_TCP_ADDR", "10.96.7.8"},
                               {"PHALANX_PORT_53_UDP", "udp://10.96.7.8:53"},
                               {"PHALANX_MASTER_PORT", "tcp://10.96.7.9:80"},
                               {"PHALANX_MASTER_SERVICE_HOST", "10.96.7.9"}};

TEST(Environment, AddressesOfKubernetesServicesAreNoSettings) {
  const Outcome outcome = parsed(kServices);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.settings.port, 8000);
  EXPECT_TRUE(outcome.warnings.empty());
  ASSERT_EQ(outcome.infos.size(), 1U) << "one line for all of them";
  for (const auto& [variable, value] : kServices) {
    EXPECT_NE(outcome.infos[0].find(variable), std::string::npos) << variable;
  }
}

TEST(Environment, APortBesideServicesIsStillASetting) {
  Environment environment = kServices;
  environment["PHALANX_PORT"] = "9000";
  EXPECT_EQ(parsed(environment).settings.port, 9000);
  environment["PHALANX_PORT"] = "http";
  EXPECT_EQ(parsed(environment).error,
            "PHALANX_PORT: --port (environment): expected a whole number from 1 to 65535, found "
            "\"http\"");
}

TEST(Environment, EveryNameOfAFlagWorks) {
  EXPECT_EQ(parsed({{"PHALANX_DP", "3"}}).settings.dp, 3);
  EXPECT_EQ(parsed({{"PHALANX_DATA_PARALLEL_SIZE", "3"}}).settings.dp, 3);
  EXPECT_EQ(parsed({{"PHALANX_DP", "3"}}, {"--dp", "2"}).settings.dp, 2);
  EXPECT_FALSE(parsed({{"PHALANX_PROGRESS", "false"}}).settings.progress);
  EXPECT_FALSE(parsed({{"PHALANX_NO_PROGRESS", "1"}}).settings.progress);
  EXPECT_TRUE(parsed({{"PHALANX_NO_PROGRESS", "0"}}).settings.progress);
  EXPECT_NE(
      parsed({{"PHALANX_DP", "3"}, {"PHALANX_DATA_PARALLEL_SIZE", "2"}}).error.find("given twice"),
      std::string::npos);
}

TEST(Environment, AMisspeltSettingGetsAWarningWithWhatWasMeant) {
  const Outcome outcome = parsed({{"PHALANX_MAX_NUM_SEQ", "1"}, {"PHALANX_ZZZZZZZZ", "1"}});
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.settings.max_num_seqs, 64);
  ASSERT_EQ(outcome.warnings.size(), 2U);
  EXPECT_EQ(outcome.warnings[0],
            "PHALANX_MAX_NUM_SEQ in the environment is no setting and has no effect; did you mean "
            "PHALANX_MAX_NUM_SEQS?");
  EXPECT_EQ(outcome.warnings[1],
            "PHALANX_ZZZZZZZZ in the environment is no setting and has no effect");
}

TEST(Environment, SuggestsByTheFewestEdits) {
  for (const auto& [wrong, meant] :
       std::map<std::string, std::string>{{"PHALANX_PROT", "PHALANX_PORT?"},
                                          {"PHALANX_MAXNUMSEQS", "PHALANX_MAX_NUM_SEQS?"},
                                          {"PHALANX_PD", "PHALANX_DP?"}}) {
    const Outcome outcome = parsed({{wrong, "1"}});
    ASSERT_EQ(outcome.warnings.size(), 1U) << wrong;
    EXPECT_TRUE(outcome.warnings[0].ends_with(meant)) << outcome.warnings[0];
  }
}

TEST(Environment, VariablesOfOtherProgramsAreLeftAlone) {
  const Outcome outcome =
      parsed({{"PHALANX_LOAD_PORT", "9"}, {"PHALANX_OTHER", "x"}, {"HOME", "/"}});
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.warnings.empty() && outcome.infos.empty());
  EXPECT_EQ(parsed({{"PHALANX_OTHERS", "x"}}).warnings.size(), 1U) << "no prefix without _";
}

TEST(Environment, WhatIsNotSupportedIsRefusedHereToo) {
  EXPECT_EQ(parsed({{"PHALANX_API_KEY", "secret"}}).error,
            "PHALANX_API_KEY: --api-key is not supported: there are no keys");
}

TEST(Environment, AnEmptyVariableIsAsUnset) {
  const Outcome outcome =
      parsed({{"PHALANX_PORT", ""}, {"PHALANX_PROGRESS", ""}, {"PHALANX_API_KEY", ""}});
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.settings.port, 8000);
}

TEST(Environment, AMisspeltKeyOfTheFileIsRefusedWithWhatWasMeant) {
  const std::string path = ::testing::TempDir() + "/environment_test.toml";
  std::ofstream(path) << "max_num_seq = 3\n";
  const std::string error = parsed({{"PHALANX_CONFIG", path}}).error;
  std::filesystem::remove(path);
  EXPECT_NE(error.find("did you mean \"max-num-seqs\"?"), std::string::npos) << error;
}

}  // namespace
}  // namespace phalanx::flags
