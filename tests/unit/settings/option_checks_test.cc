// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/keeper/doors.h"
#include "phalanx/settings/options.h"
#include "phalanx/wire/front_journal.h"

namespace phalanx::settings {
namespace {

// What is said of `arguments`; empty if they are taken.
std::string error_of(std::vector<std::string> arguments) {
  Options options;
  flags::FlagTable table = make_flag_table(&options);
  arguments.insert(arguments.begin(), {"--model", "m"});
  const auto request = parse_options(&table, &options, arguments, {});
  return request ? "" : request.error().message();
}

TEST(OptionChecks, AListOfNothingIsRefused) {
  for (const std::string option : {"--allowed-hosts", "--allowed-origins"}) {
    EXPECT_EQ(error_of({option, "a, b"}), "");
    for (const std::string list : {",", " , ", " "}) {
      EXPECT_EQ(error_of({option, list}),
                option + ": expected names separated by commas, found \"" + list + "\"");
    }
  }
}

TEST(OptionChecks, AListOfJsonIsRefused) {
  EXPECT_EQ(error_of({"--allowed-origins", R"(["*"])"}),
            R"(--allowed-origins: expected names separated by commas, found "["*"]")");
  EXPECT_EQ(error_of({"--allowed-origins", "*"}), "");
}

TEST(OptionChecks, WhatIsForAPromptNeedsOne) {
  const std::vector<std::vector<std::string>> all = {
      {"--seed", "0"}, {"--max-tokens", "2"}, {"--temperature", "1"}, {"--no-apply-chat-template"}};
  for (std::vector<std::string> flags : all) {
    EXPECT_TRUE(error_of(flags).starts_with("--")) << flags[0];
    EXPECT_NE(error_of(flags).find("is for --prompt, of which there is none"), std::string::npos)
        << error_of(flags);
    flags.insert(flags.end(), {"--prompt", "a"});
    EXPECT_EQ(error_of(flags), "");
  }
  EXPECT_EQ(error_of({"--seed", "-1"}), "");
}

TEST(OptionChecks, WhatIsForAServerIsNotGivenBesideAPrompt) {
  const std::vector<std::vector<std::string>> all = {{"--host", "::"},
                                                     {"--port", "8000"},
                                                     {"--fronts", "1"},
                                                     {"--max-num-queued-reqs", "9"},
                                                     {"--max-num-queued-tokens", "9"},
                                                     {"--max-connections", "9"},
                                                     {"--max-connections-per-address", "9"},
                                                     {"--allowed-hosts", "a"},
                                                     {"--allowed-origins", "*"},
                                                     {"--no-strict-api"},
                                                     {"--stream-buffer-bytes", "4096"},
                                                     {"--keep-alive-interval", "0"},
                                                     {"--client-memory-bytes", "2g"},
                                                     {"--max-body-bytes", "4096"},
                                                     {"--shutdown-timeout", "1"}};
  for (std::vector<std::string> flags : all) {
    EXPECT_EQ(error_of(flags), "");
    flags.insert(flags.end(), {"--prompt", "a"});
    EXPECT_NE(error_of(flags).find(" is for a server, and with --prompt none is started"),
              std::string::npos)
        << flags[0];
  }
  Options options;
  flags::FlagTable table = make_flag_table(&options);
  EXPECT_TRUE(parse_options(
      &table, &options, {"m", "--prompt", "a", "--default", "port=1"}, {{"PHALANX_HOST", "::"}}));
}

TEST(OptionChecks, DumpsGoWhereOptionStateAndHomeSay) {
  using Environment = std::map<std::string, std::string>;
  const auto folder = [](const std::string& option, const Environment& environment) {
    Options options;
    flags::FlagTable table = make_flag_table(&options);
    std::vector<std::string> arguments = {"--model", "m"};
    if (!option.empty()) {
      arguments.insert(arguments.end(), {"--dump-dir", option});
    }
    EXPECT_TRUE(parse_options(&table, &options, arguments, environment));
    return options.dump_dir;
  };
  EXPECT_EQ(folder("/d", {{"HOME", "/h"}}), "/d");
  EXPECT_EQ(folder("", {{"XDG_STATE_HOME", "/s"}, {"HOME", "/h"}}), "/s/phalanx/poisoned");
  EXPECT_EQ(folder("", {{"XDG_STATE_HOME", "s"}, {"HOME", "/h"}}),
            "/h/.local/state/phalanx/poisoned");
  EXPECT_TRUE(folder("", {}).starts_with("/tmp/phalanx-"));
}

TEST(OptionChecks, WhoKnowsOtherServersIsToldTheNameThatItHasHere) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> all = {
      {{"-c", "4096"},
       "-c is not supported: tokens of prompt and answer together are limited by "
       "--max-model-len"},
      {{"--ctx-size=4096"},
       "--ctx-size is not supported: tokens of prompt and answer together are "
       "limited by --max-model-len"},
      {{"-t", "8"}, "-t is not supported: the cores of each rank are set by --devices"},
      {{"-np", "4"},
       "--np is not supported: sequences that run at the same time are limited by "
       "--max-num-seqs"},
      {{"-ngl", "99"}, "--ngl is not supported: there is no GPU back end in this version"},
      {{"--tp-size", "2"}, "--tp-size is not supported: ranks of a replica are counted by --tp"},
  };
  for (const auto& [arguments, expected] : all) {
    EXPECT_EQ(error_of(arguments), expected);
  }
  EXPECT_EQ(error_of({"-ngl", "0", "-c", "0", "--jinja", "--metrics"}), "");
  EXPECT_TRUE(error_of({"--nonsense"}).ends_with("; see phalanxd --help"));
  Options options;
  flags::FlagTable table = make_flag_table(&options);
  const auto served = parse_options(&table, &options, {"serve", "m", "--port", "1"}, {});
  ASSERT_FALSE(served);
  EXPECT_EQ(served.error().message(),
            "unexpected argument \"serve\": no command is needed, `phalanxd MODEL` starts a server "
            "(a model of that name is ./serve)");
}

TEST(OptionChecks, BytesAndTokensMayEndInAMultiplier) {
  Options options;
  flags::FlagTable table = make_flag_table(&options);
  ASSERT_TRUE(parse_options(&table,
                            &options,
                            {"m", "--max-model-len", "4k", "--kv-cache-memory-bytes", "2G"},
                            {{"PHALANX_MAX_BODY_BYTES", "1Mi"}}));
  EXPECT_EQ(options.max_model_len, 4000);
  EXPECT_EQ(options.kv_cache_memory_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(options.max_body_bytes, 1 << 20);
  for (const flags::Flag& flag : table.flags()) {
    const std::string& name = flag.names.front();
    EXPECT_TRUE(flag.is_amount || !name.ends_with("-bytes")) << name;
  }
}

TEST(OptionChecks, AFrontCanKeepAJournalOfEveryConnection) {
  const auto most = std::to_string(wire::kMaxJournalPlaces - keeper::Doors::kMaxRefused);
  for (const std::string option : {"--max-connections", "--max-connections-per-address"}) {
    EXPECT_EQ(error_of({option, most}), "");
    EXPECT_NE(error_of({option, most + "0"}).find("to " + most + ", found"), std::string::npos);
  }
}

TEST(OptionChecks, OfNegativeTemperaturesOnlyMinusOneMeansTheModels) {
  for (const char* temperature : {"-1", "0", "2"}) {
    EXPECT_EQ(error_of({"--temperature", temperature, "--prompt", "a"}), "");
  }
  for (const char* temperature : {"-0.5", "-0.999"}) {
    EXPECT_NE(error_of({"--temperature", temperature, "--prompt", "a"})
                  .find("--temperature: expected -1 or"),
              std::string::npos);
  }
}

TEST(OptionChecks, ANameOfTheModelCanBeShown) {
  EXPECT_EQ(error_of({"--served-model-name", "Modell-ä 7B"}), "");
  EXPECT_EQ(error_of({"--served-model-name", "\xff\xfe"}),
            "--served-model-name: expected UTF-8 without control characters, found \"\\xff\\xfe\"");
  EXPECT_EQ(error_of({"--served-model-name", "a\nb"}),
            "--served-model-name: expected UTF-8 without control characters, found \"a\\u{a}b\"");
}

TEST(OptionChecks, AModelMayHaveSeveralNames) {
  EXPECT_EQ(error_of({"--served-model-name", "a, org/b,c d"}), "");
  for (const std::string names : {"a,,b", ",a", "a,", "a, ,b", " ", ","}) {
    EXPECT_EQ(error_of({"--served-model-name", names}),
              "--served-model-name: expected names separated by commas, found \"" + names + "\"");
  }
  EXPECT_EQ(error_of({"--served-model-name", "a,b, a"}),
            "--served-model-name: expected different names, found \"a\" twice");
  EXPECT_EQ(error_of({"--served-model-name", std::string(200, 'x') + "," + std::string(56, 'y')}),
            "--served-model-name: expected at most 256 bytes, found 257");
}

TEST(OptionChecks, TextsThatAreTooLongAreNamedByTheirOption) {
  EXPECT_EQ(error_of({"--served-model-name", std::string(256, 'x')}), "");
  EXPECT_EQ(error_of({"--served-model-name", std::string(257, 'x')}),
            "--served-model-name: expected at most 256 bytes, found 257");
  EXPECT_EQ(error_of({"--chat-template", std::string(4097, 'x')}),
            "--chat-template: expected at most 4096 bytes, found 4097");
  Options options;
  flags::FlagTable table = make_flag_table(&options);
  const auto request = parse_options(&table, &options, {std::string(4097, 'x')}, {});
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().message(), "--model: expected at most 4096 bytes, found 4097");
}

}  // namespace
}  // namespace phalanx::settings
