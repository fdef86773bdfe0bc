// SPDX-License-Identifier: Apache-2.0
#include "phalanx/flags/flag_table.h"

#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace phalanx::flags {
namespace {

constexpr std::int64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();

struct Settings {
  std::int64_t tp = 1;
  double rate = std::numeric_limits<double>::infinity();
  std::string model;
  std::string policy = "least";
  std::vector<std::string> prompts;
  bool verbose = false;
  std::int64_t memory = 0;
  std::int64_t context = 1;
};

FlagTable make_table(Settings* settings) {
  FlagTable table("program", "Does something.", "TEST_");
  table.group("Topology");
  table.add_int("tensor-parallel-size,tp", &settings->tp, 1, 64, "Ranks per replica");
  table.add_double("rate", &settings->rate, 0, std::numeric_limits<double>::infinity(), "Rate");
  table.add_text("model", &settings->model, "PATH", "Model");
  table.add_choice("policy", &settings->policy, {"least", "random"}, "Policy");
  table.add_texts("prompt", &settings->prompts, "TEXT", "Prompt");
  table.add_switch("verbose", &settings->verbose, "Say more");
  table.add_amount("memory", &settings->memory, 0, kMaxBytes, Unit::kBytes, "Memory");
  table.add_amount("context", &settings->context, 1, 1 << 20, Unit::kTokens, "Context");
  table.refuse("pipeline-parallel-size,pp", "Phalanx does not shard by pipeline stage", "1");
  table.refuse_switch("enforce-eager", "there are no graphs to capture", true);
  table.positional("model");
  table.refuse_word("serve", "no command is needed");
  table.allow_environment("TEST_ISA");
  return table;
}

std::string error_of(const std::vector<std::string>& arguments,
                     const std::map<std::string, std::string>& environment = {}) {
  Settings settings;
  FlagTable table = make_table(&settings);
  const auto result = table.parse(arguments, environment);
  return result ? "" : result.error().message();
}

TEST(FlagTable, ReadsEverySpellingOfAName) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--tensor-parallel-size", "2"},
                                             {"--tensor_parallel_size=2"},
                                             {"--tp", "2"},
                                             {"-tp", "2"},
                                             {"--tp=2"}}) {
    Settings settings;
    FlagTable table = make_table(&settings);
    ASSERT_TRUE(table.parse(arguments, {})) << arguments[0];
    EXPECT_EQ(settings.tp, 2) << arguments[0];
  }
}

TEST(FlagTable, TakesValuesAsTheyAre) {
  for (const std::string value :
       {"- fix my_function", "-x_y", "-", "--x_y", "--tp is a_b", "-1", ""}) {
    Settings settings;
    FlagTable table = make_table(&settings);
    const auto parsed =
        table.parse({"--prompt", value, "-prompt", value, "--prompt=" + value + "!"}, {});
    ASSERT_TRUE(parsed) << value << ": " << parsed.error().message();
    EXPECT_EQ(settings.prompts, (std::vector<std::string>{value, value, value + "!"}));
  }
  for (const std::string other : {"--tp", "-tp", "--tp=2", "--verbose", "--tensor_parallel_size"}) {
    const std::string error = error_of({"--model", other, "2"});
    EXPECT_EQ(error,
              "--model: expected a value, found the option " + other +
                  "; a value like that is written --model=" + other);
  }
  Settings empty;
  FlagTable of_empty = make_table(&empty);
  ASSERT_TRUE(of_empty.parse({"--prompt=", "--prompt==", "-prompt=", "word"}, {}));
  EXPECT_EQ(empty.prompts, (std::vector<std::string>{"", "=", ""}));
  EXPECT_EQ(empty.model, "word");
  Settings settings;
  FlagTable table = make_table(&settings);
  ASSERT_TRUE(table.parse({"--tp", "2", "--", "-m_x"}, {}));
  EXPECT_EQ(settings.model, "-m_x");
  EXPECT_EQ(settings.tp, 2);
}

TEST(FlagTable, GivesAllWordsToAFlagThatTakesThem) {
  const auto words_of = [](const std::vector<std::string>& arguments) {
    std::vector<std::string> words;
    Settings settings;
    FlagTable table = make_table(&settings);
    Flag flag{{"limit"}, "WORD", "Limit", "", "", true, false, {}, true};
    flag.set = [&](const std::string& text) -> Status {
      words.push_back(text);
      return ok();
    };
    table.add(std::move(flag));
    EXPECT_TRUE(table.parse(arguments, {}));
    const bool has_folder =
        std::find(arguments.begin(), arguments.end(), "folder") != arguments.end();
    EXPECT_EQ(settings.model, has_folder ? "folder" : "");
    return words;
  };
  const std::vector<std::string> ab = {"a", "b"};
  EXPECT_EQ(words_of({"--limit", "a", "b"}), ab);
  EXPECT_EQ(words_of({"folder", "--limit", "a", "b", "--tp", "2"}), ab);
  EXPECT_EQ(words_of({"--limit=a", "b", "--verbose"}), ab);
  EXPECT_EQ(words_of({"--limit", "a", "b", "--"}), ab);
  EXPECT_EQ(words_of({"--limit", "a", "b", "--", "folder"}), ab);
  EXPECT_EQ(words_of({"--limit", "a", "--verbose", "--limit", "b"}), ab);
}

TEST(FlagTable, TakesAPositionalModelAndRepeatedPrompts) {
  Settings settings;
  FlagTable table = make_table(&settings);
  ASSERT_TRUE(
      table.parse({"folder", "--prompt", "a b", "--prompt=c", "--verbose", "--rate", "inf"}, {}));
  EXPECT_EQ(settings.model, "folder");
  EXPECT_EQ(settings.prompts, (std::vector<std::string>{"a b", "c"}));
  EXPECT_TRUE(settings.verbose);
}

TEST(FlagTable, TakesNumbersAsTheyAreWrittenAndNothingElse) {
  for (const auto& [text, value] : {std::pair{"0", 0.0}, {"2.5", 2.5}, {"1e3", 1000.0}}) {
    Settings settings;
    ASSERT_TRUE(make_table(&settings).parse({"--rate", text}, {})) << text;
    EXPECT_EQ(settings.rate, value) << text;
  }
  for (const char* text :
       {" 1", "1 ", "+1", "0x10", "1.5x", "-1", "nan", "1e999", "1,5", ".", "-"}) {
    const std::string found = ": expected a number from 0 to inf, found \"";
    EXPECT_NE(error_of({"--rate=" + std::string(text)}).find(found + text + "\""),
              std::string::npos)
        << text;
  }
}

TEST(FlagTable, AmountsMayEndInAMultiplier) {
  const test::TempDir place;
  for (const auto& [text, value] : {std::pair<std::string, std::int64_t>{"0", 0},
                                    {"4096", 4096},
                                    {"4k", 4000},
                                    {"4K", 4096},
                                    {"4Ki", 4096},
                                    {"2m", 2'000'000},
                                    {"2M", 2 << 20},
                                    {"2Mi", 2 << 20},
                                    {"3g", 3'000'000'000},
                                    {"3G", std::int64_t{3} << 30},
                                    {"3Gi", std::int64_t{3} << 30},
                                    {"9223372036854775807", kMaxBytes},
                                    {"8589934591G", (kMaxBytes >> 30) << 30}}) {
    const std::string file = place.write("c.toml", "memory = \"" + text + "\"\n");
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"--memory", text}, {"--config", file}}) {
      Settings settings;
      const auto parsed = make_table(&settings).parse(arguments, {});
      ASSERT_TRUE(parsed) << parsed.error().message();
      EXPECT_EQ(settings.memory, value) << text;
    }
  }
  for (const char* text : {"",
                           "k",
                           "-1",
                           "-1k",
                           "1.5g",
                           "2GB",
                           "2GiB",
                           "2 G",
                           "2ki",
                           "2T",
                           "+1",
                           "8589934592G",
                           "9223372036854775808",
                           "99999999999999999999k"}) {
    EXPECT_EQ(error_of({"--memory", text}),
              "--memory (command line): expected a whole number of bytes from 0 to "
              "9223372036854775807, as 4000, 4k (4000), 4K or 4Ki (4096), or with m, g, M, G, Mi "
              "or Gi, found \"" +
                  std::string(text) + "\"");
  }
  EXPECT_TRUE(error_of({"--context", "2M"}).find("of tokens from 1 to 1048576") !=
              std::string::npos);
  EXPECT_TRUE(error_of({"--tp", "1k"}).ends_with("from 1 to 64, found \"1k\""))
      << "counts are no amounts";
}

TEST(FlagTable, PrefersCommandLineToEnvironmentToFile) {
  const std::string path = ::testing::TempDir() + "/flag_table_test.toml";
  std::ofstream(path)
      << "tp = 3\npolicy = \"random\"\nmodel = \"from-file\"\nprompt = [\"x\", \"y\"]\n";
  Settings settings;
  FlagTable table = make_table(&settings);
  const auto result = table.parse(
      {"--tp", "5", "--config", path},
      {{"TEST_TENSOR_PARALLEL_SIZE", "4"}, {"TEST_MODEL", "from-env"}, {"TEST_ISA", "x"}});
  std::filesystem::remove(path);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(settings.tp, 5);
  EXPECT_EQ(settings.model, "from-env");
  EXPECT_EQ(settings.policy, "random");
  EXPECT_EQ(settings.prompts.size(), 2U);
}

// What parsing says of `--config path`, also where that waits for nothing.
Error config_error_of(const std::string& path) {
  Settings settings;
  FlagTable table = make_table(&settings);
  const auto result = table.parse({"--config", path}, {});
  EXPECT_FALSE(result.has_value()) << path;
  return result ? internal_error("none") : result.error();
}

TEST(FlagTable, TakesADefaultForWhatNoOtherSourceSets) {
  const test::TempDir temp;
  const std::string path = temp.path() / "settings.toml";
  std::ofstream(path) << "policy = \"\"\"random\"\"\"\nprompt = [\n\"p\"]\ntp = 5\n";
  Settings settings;
  FlagTable table = make_table(&settings);
  const auto parsed = table.parse({"--default",
                                   "model=own=m",
                                   "--default=tp=2",
                                   "--default",
                                   "policy=least",
                                   "--default",
                                   "verbose=true",
                                   "--default",
                                   "rate=7",
                                   "--no-verbose",
                                   "--config",
                                   path},
                                  {{"TEST_RATE", "3"}, {"TEST_MODEL", ""}});
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(settings.model, "own=m");
  EXPECT_EQ(settings.tp, 5);
  EXPECT_EQ(settings.policy, "random");
  EXPECT_EQ(settings.rate, 3.0);
  EXPECT_FALSE(settings.verbose);
}

TEST(FlagTable, RefusesADefaultOfNothing) {
  for (const std::string wrong : {"tp", "", "=2", "unknown=1", "config=a.toml"}) {
    EXPECT_EQ(error_of({"--default", wrong}),
              "--default: expected NAME=VALUE with the name of a setting, found \"" + wrong + "\"");
  }
  EXPECT_NE(error_of({"--default", "tp=0"}).find("(--default)"), std::string::npos);
  EXPECT_NE(error_of({"--default", "tp=1", "--default", "tensor_parallel_size=2"}).find("twice"),
            std::string::npos);
}

TEST(FlagTable, TellsWhatTheCommandLineHas) {
  std::int64_t tp = 1;
  std::int64_t dp = 1;
  FlagTable table("program", "Does something.", "TEST_");
  table.add_int("tensor-parallel-size,tp", &tp, 1, 64, "Ranks");
  table.add_int("data-parallel-size,dp", &dp, 1, 64, "Replicas");
  ASSERT_TRUE(table.parse({"--tp", "2"}, {{"TEST_DP", "3"}}));
  EXPECT_EQ(table.given(), std::vector<std::string>{"tensor-parallel-size"});
  EXPECT_EQ(dp, 3);
}

TEST(FlagTable, TakesARegularFileForItsFileOnly) {
  const test::TempDir place;
  const std::string pipe = place.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {place.path().string(), std::string("/dev/zero"), pipe}) {
    EXPECT_EQ(config_error_of(path),
              invalid_argument("--config: " + path +
                               ": expected a file, found a folder, pipe or device"));
  }
  const std::string absent = place.path() / "absent";
  EXPECT_EQ(config_error_of(absent),
            not_found("--config: " + absent + ": No such file or directory (errno 2)"));
  const std::string large = place.write("large", "# " + std::string(std::size_t{1} << 20, 'x'));
  EXPECT_EQ(config_error_of(large).message(),
            "--config: " + large + ": expected at most 1048576 bytes, found 1048578");
}

TEST(FlagTable, ReadsNoFileThatItsFileNames) {
  const test::TempDir place;
  const std::string path = place.write("c.toml", "tp = 3\nconfig = \"c3.toml\"\n");
  EXPECT_EQ(config_error_of(path),
            invalid_argument("config file " + path +
                             ", line 2: key \"config\": a file names no other one"));
}

TEST(FlagTable, KeepsTheDigitsOfNumbersInItsFile) {
  const test::TempDir place;
  Settings settings;
  FlagTable table = make_table(&settings);
  ASSERT_TRUE(table.parse({"--config", place.write("c.toml", "rate = 1e-9\n")}, {}));
  EXPECT_EQ(settings.rate, 1e-9);
  const std::string whole = place.write("d.toml", "tp = 4.0\n");
  EXPECT_EQ(config_error_of(whole).message(),
            "--tensor-parallel-size (file " + whole +
                "): expected a whole number from 1 to 64, found \"4.0\"");
}

TEST(FlagTable, LosesNothingThatItsFileSays) {
  const test::TempDir place;
  const std::string path = place.path().string() + "/settings.toml";
  const auto error_of_file = [&](const std::string& text) {
    std::ofstream(path) << text;
    return error_of({"--config", path});
  };
  const std::string origin = " (file " + path + ")";
  const std::string line = "config file " + path + ", line ";
  EXPECT_EQ(error_of_file("tp = []"),
            "--tensor-parallel-size" + origin + ": expected one value, found none");
  for (const char* none : {"[[]]", "[[2]]", "[[], []]", "{a = 1}", "1979-05-27"}) {
    const std::string error = error_of_file(std::string("\ntp = ") + none);
    EXPECT_TRUE(error.starts_with(line + "2: key \"tp\": expected a string")) << error;
  }
  EXPECT_EQ(error_of_file("verbose = []"),
            "--verbose" + origin + ": expected one value, found none");
  EXPECT_NE(error_of_file("no-verbose = []").find("expected one value"), std::string::npos);
  EXPECT_EQ(error_of_file("model = ['a', 'b']"),
            "--model" + origin + ": expected one value, found 2");
  EXPECT_NE(error_of_file("prot = []").find("unknown setting \"prot\""), std::string::npos);
  EXPECT_NE(error_of_file("pp = ['a', 'b']").find("is not supported"), std::string::npos);
  EXPECT_EQ(error_of_file("prompt = []\npp = []\ntp = [2]"), "") << "there are none";
  EXPECT_EQ(error_of_file("verbose = ''"),
            "--verbose" + origin + ": expected true or false, found \"\"");
  EXPECT_NE(error_of_file("no-verbose = ''").find("expected true or false"), std::string::npos);
  EXPECT_EQ(error_of_file("rate = \"5\\u0000x\""),
            line +
                "1: key \"rate\": expected text as a command line may have it, found a zero byte "
                "in it");
}

TEST(FlagTable, RefusesAKnownButUnsupportedFlagByName) {
  EXPECT_EQ(error_of({"--pipeline-parallel-size", "2"}),
            "--pipeline-parallel-size is not supported: Phalanx does not shard by pipeline stage");
  EXPECT_EQ(error_of({"--pp=2"}),
            "--pp is not supported: Phalanx does not shard by pipeline stage");
  EXPECT_EQ(error_of({"--pipeline_parallel_size", "1"}), "");
}

TEST(FlagTable, WhatIsNoOptionIsNotRefusedForItsName) {
  Settings settings;
  FlagTable table = make_table(&settings);
  ASSERT_TRUE(table.parse({"--prompt", "-pp", "--prompt=--pp", "--", "-pp"}, {}));
  EXPECT_EQ(settings.prompts, (std::vector<std::string>{"-pp", "--pp"}));
  EXPECT_EQ(settings.model, "-pp");
  EXPECT_EQ(error_of({"--prompt", "--pp", "2"}),
            "--pp is not supported: Phalanx does not shard by pipeline stage")
      << "its value was forgotten";
}

TEST(FlagTable, RefusesACommandOfOtherPrograms) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"serve"}, {"serve", "folder"}, {"--tp", "2", "serve"}, {"serve", "--model", "m"}}) {
    EXPECT_EQ(error_of(arguments), "unexpected argument \"serve\": no command is needed");
  }
  EXPECT_EQ(error_of({"./serve"}), "");
  EXPECT_EQ(error_of({"--model", "serve"}), "");
}

TEST(FlagTable, RefusesASwitchUnlessItAsksForWhatHappensAnyway) {
  const std::string refused = " is not supported: there are no graphs to capture";
  for (const std::vector<std::string>& harmless :
       std::vector<std::vector<std::string>>{{"--enforce-eager"},
                                             {"--enforce-eager", "model"},
                                             {"--enforce_eager=1"},
                                             {"--enforce-eager=True"},
                                             {"--no-enforce-eager=false"}}) {
    EXPECT_EQ(error_of(harmless), "") << harmless.back();
  }
  EXPECT_EQ(error_of({"--no-enforce-eager"}), "--no-enforce-eager" + refused);
  EXPECT_EQ(error_of({"--enforce-eager=off"}), "--enforce-eager" + refused);
  EXPECT_EQ(error_of({"--enforce-eager=maybe"}), "--enforce-eager" + refused);
  EXPECT_EQ(error_of({}, {{"TEST_ENFORCE_EAGER", "yes"}}), "");
  EXPECT_NE(error_of({}, {{"TEST_ENFORCE_EAGER", "0"}}), "");
  Settings settings;
  FlagTable table = make_table(&settings);
  ASSERT_TRUE(table.parse({"--enforce-eager", "folder"}, {}));
  EXPECT_EQ(settings.model, "folder") << "the word behind a switch is none of its own";
}

TEST(FlagTable, RefusesNoNameThatIsAFlag) {
  bool cache = true;
  FlagTable table("program", "Summary.", "PROGRAM_");
  table.add_switch("cache,enable-cache", &cache, "Keeps a cache");
  EXPECT_DEATH(table.refuse("enable-cache", "there is no cache"), "a flag is refused");
}

TEST(FlagTable, SaysWhatWasExpectedAndFound) {
  EXPECT_EQ(
      error_of({"--tp", "0"}),
      "--tensor-parallel-size (command line): expected a whole number from 1 to 64, found \"0\"");
  EXPECT_EQ(
      error_of({"--tp", "2x"}),
      "--tensor-parallel-size (command line): expected a whole number from 1 to 64, found \"2x\"");
  EXPECT_EQ(error_of({"--policy", "best"}),
            "--policy (command line): expected one of least, random, found \"best\"");
  EXPECT_EQ(error_of({"--tpp", "2"}),
            "unknown option --tpp; did you mean --tp?; see program --help");
  EXPECT_EQ(error_of({"--tp", "2", "--tp", "3"}),
            "--tensor-parallel-size is given twice (command line)");
  EXPECT_EQ(error_of({"--verbose", "--no-tp"}), "unknown option --no-tp; see program --help");
  EXPECT_EQ(error_of({"a", "b"}),
            "unexpected argument \"b\": --model is given, and other flags take one value; see "
            "program --help");
  EXPECT_EQ(error_of({"-x"}), "unknown option -x; see program --help");
}

TEST(FlagTable, SwitchesAreTurnedOnAndOffInEverySpelling) {
  const auto verbose_after = [](bool before, const std::vector<std::string>& arguments) {
    Settings settings;
    settings.verbose = before;
    FlagTable table = make_table(&settings);
    const auto result = table.parse(arguments, {});
    EXPECT_TRUE(result) << arguments[0] << ": " << result.error().message();
    EXPECT_EQ(settings.model, "folder") << "the word behind a switch is no part of it";
    return settings.verbose;
  };
  for (const std::string on :
       {"--verbose", "--verbose=true", "--verbose=1", "--verbose=On", "--no-verbose=false"}) {
    EXPECT_TRUE(verbose_after(false, {on, "folder"})) << on;
  }
  for (const std::string off : {"--no-verbose",
                                "--no_verbose",
                                "--verbose=false",
                                "--verbose=0",
                                "--verbose=no",
                                "--no-verbose=true"}) {
    EXPECT_FALSE(verbose_after(true, {off, "folder"})) << off;
  }
  EXPECT_EQ(error_of({"--verbose=perhaps"}),
            "--verbose (command line): expected true or false, found \"perhaps\"");
}

TEST(FlagTable, HelpIsAskedForInEverySpelling) {
  for (const std::string help : {"-h", "--help", "-help"}) {
    Settings settings;
    FlagTable table = make_table(&settings);
    const auto result = table.parse({help}, {});
    ASSERT_TRUE(result) << help;
    EXPECT_EQ(*result, FlagTable::Request::kHelp) << help;
  }
}

TEST(FlagTable, KeepsWords) {
  const auto words_of = [](const std::vector<std::string>& arguments) -> std::vector<std::string> {
    Settings settings;
    FlagTable table("program", "Does something.", "TEST_");
    std::vector<std::string> words;
    table.words(&words, 2, "[COMMAND [ARGUMENT]]");
    table.add_switch("json", &settings.verbose, "JSON");
    EXPECT_NE(table.help_text().find("usage: program [COMMAND [ARGUMENT]] [options]"),
              std::string::npos);
    const auto result = table.parse(arguments, {});
    return result ? words : std::vector<std::string>{result.error().message()};
  };
  EXPECT_EQ(words_of({}), std::vector<std::string>{});
  EXPECT_EQ(words_of({"--json", "drain", "1"}), (std::vector<std::string>{"drain", "1"}));
  EXPECT_EQ(words_of({"drain", "--json", "1", "2"}),
            std::vector<std::string>{"unexpected argument \"2\"; see program --help"});
}

TEST(FlagTable, HelpNamesEveryFlag) {
  Settings settings;
  const FlagTable table = make_table(&settings);
  const std::string help = table.help_text();
  for (const Flag& flag : table.flags()) {
    EXPECT_NE(help.find("--" + flag.names.front()), std::string::npos) << flag.names.front();
  }
  for (const std::string text : {"--memory BYTES\n",
                                 "--context TOKENS\n",
                                 "BYTES and TOKENS\n        May end in k,",
                                 "--no-verbose",
                                 "--verbose, --no-verbose",
                                 "-h, --help",
                                 "--version"}) {
    EXPECT_NE(help.find(text), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace phalanx::flags
