// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <gtest/gtest.h>

namespace phalanx::load {
namespace {

Options parsed(const std::vector<std::string>& arguments) {
  const auto result = parse_options(arguments, {});
  EXPECT_TRUE(result) << (result ? "" : result.error().message());
  return result ? result->options : Options();
}

std::string refusal(const std::vector<std::string>& arguments) {
  const auto result = parse_options(arguments, {});
  return result ? "accepted" : result.error().message();
}

TEST(LoadOptions, FindHostPortAndPrefixInABaseUrl) {
  struct Case {
    std::string url;
    std::string host;
    std::int64_t port;
    std::string endpoint;
  };
  for (const Case& c :
       {Case{"http://localhost", "localhost", 80, "/v1/completions"},
        Case{"http://10.0.0.7:8001/", "10.0.0.7", 8001, "/v1/completions"},
        Case{"http://h:9/proxy/", "h", 9, "/proxy/v1/completions"},
        Case{"http://[::1]", "::1", 80, "/v1/completions"},
        Case{"http://[fe80::2%lo]:8000/x", "fe80::2%lo", 8000, "/x/v1/completions"}}) {
    const Options options = parsed({"--base-url", c.url});
    EXPECT_EQ(options.host, c.host) << c.url;
    EXPECT_EQ(options.port, c.port) << c.url;
    EXPECT_EQ(options.endpoint, c.endpoint) << c.url;
    const std::string prefix = c.endpoint.substr(0, c.endpoint.find("/v1"));
    EXPECT_EQ(options.model_list, prefix + "/v1/models") << c.url;
  }
  EXPECT_EQ(parsed({"--host", "h"}).model_list, "/v1/models");
  const Options whole = parsed({"--base-url", "http://h/x/v1", "--endpoint", "/completions"});
  EXPECT_EQ(whole.endpoint, "/x/v1/completions");
  EXPECT_EQ(whole.model_list, "/x/v1/models");
}

TEST(LoadOptions, SendTheLastRequestWithinAYear) {
  EXPECT_EQ(parsed({"--request-rate", "0.4", "--num-prompts", "10000000"}).request_rate, 0.4);
  EXPECT_EQ(parsed({"--request-rate", "0.000001", "--num-prompts", "31"}).num_prompts, 31);
  EXPECT_EQ(parsed({"--request-rate", "inf", "--num-prompts", "10000000"}).num_prompts, 10'000'000);
  for (const std::string count : {"32", "10000000"}) {
    EXPECT_EQ(refusal({"--request-rate", "0.000001", "--num-prompts", count}),
              "--request-rate: at this rate the last of --num-prompts (" + count +
                  ") requests would be sent after more than a year");
  }
}

TEST(LoadOptions, TakeWholeNumbersOnlyWhereOthersMeanNothing) {
  EXPECT_EQ(parsed({"--top-k", "-1"}).fields.top_k, -1);
  EXPECT_EQ(parsed({"--top-k", "40"}).fields.top_k, 40);
  for (const char* text : {"0.5", "1e2", "-2", "x", "", "99999999999999999999"}) {
    EXPECT_NE(refusal({"--top-k", text}).find("expected a whole number from -1 to"),
              std::string::npos)
        << text;
  }
  for (const char* port : {"80.5", "8e1", "0", "65536", ""}) {
    EXPECT_NE(refusal({"--base-url", std::string("http://h:") + port})
                  .find("--base-url: port: expected a whole number from 1 to 65535"),
              std::string::npos)
        << port;
  }
}

TEST(LoadOptions, TakeAnIpv6HostWithAndWithoutBrackets) {
  EXPECT_EQ(parsed({"--host", "::1"}).host, "::1");
  EXPECT_EQ(parsed({"--host", "[::1]"}).host, "::1");
}

TEST(LoadOptions, NameTheFlagOfABadAddress) {
  EXPECT_EQ(refusal({"--host", "[::1"}),
            "--host: expected a name or an address, as in localhost, 127.0.0.1 or [::1], came "
            "\"[::1\"");
  EXPECT_NE(refusal({"--base-url", "http://[::1:80"}).find("--base-url"), std::string::npos);
  EXPECT_NE(refusal({"--base-url", "http://:80"}).find("--base-url"), std::string::npos);
  EXPECT_NE(refusal({"--base-url", "http://::1:80"}).find("--base-url"), std::string::npos);
}

TEST(LoadOptions, ReadTheLimitsOfGoodputFromOneFlagOrSeveral) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--goodput", "ttft:200", "e2el:2000.5", "--num-prompts", "3"},
           {"--goodput=ttft:200", "--num-prompts", "3", "--goodput", "e2el:2000.5"},
           {"--goodput=ttft:200", "e2el:2000.5", "--num-prompts=3"},
           {"--goodput", " ttft:200  e2el:2000.5", "--num-prompts=3"}}) {
    const Options options = parsed(arguments);
    EXPECT_EQ(options.goodput.ttft, 200.0);
    EXPECT_EQ(options.goodput.e2el, 2000.5);
    EXPECT_EQ(options.goodput.tpot, std::nullopt);
    EXPECT_EQ(options.num_prompts, 3);
  }
}

TEST(LoadOptions, TheAuditOfUsageCanBeSwitchedOff) {
  EXPECT_TRUE(parsed({"--num-prompts", "3"}).audit_usage);
  EXPECT_FALSE(parsed({"--no-audit-usage"}).audit_usage);
  EXPECT_FALSE(parsed({"--audit-usage=false"}).audit_usage);
  const auto help = parse_options({"-h"}, {});
  ASSERT_TRUE(help && help->print_and_exit);
  EXPECT_NE(help->print_and_exit->find("--audit-usage, --no-audit-usage"), std::string::npos);
}

TEST(LoadOptions, SettingsOfTheServerAreLeftAlone) {
  const auto result = parse_options({},
                                    {{"PHALANX_LOAD_PORT", "9"},
                                     {"PHALANX_LOAD_BALANCE_METHOD", "round_robin"},
                                     {"PHALANX_LOAD_FORMAT", "auto"},
                                     {"PHALANX_PORT", "8"}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->options.port, 9);
  EXPECT_TRUE(result->notes.empty());
}

TEST(LoadOptions, AHeaderFieldIsOne) {
  EXPECT_EQ(*parsed({"--header", "a: b"}).http_headers.find("a"), "b");
  EXPECT_EQ(*parsed({"--header", "a: b"}).http_headers.find("content-type"), "application/json");
  const Options own = parsed({"--header", "Content-Type: text/x"});
  EXPECT_EQ(*own.http_headers.find("content-type"), "text/x");
  EXPECT_EQ(own.http_headers.fields().size(), 1U);
  EXPECT_EQ(refusal({"--header", "Content-Length: 7"}),
            "--header: \"Content-Length\" cannot be set: it says how requests are sent");
  EXPECT_EQ(refusal({"--header", "a: b\r\nc: d"}),
            "--header: expected no control characters, came \"a: b\\u{d}\\u{a}c: d\"");
}

TEST(LoadOptions, APlaceForTheResultNeedsAResult) {
  for (const char* option : {"--result-dir", "--result-filename"}) {
    EXPECT_EQ(refusal({option, "x"}), "--result-dir and --result-filename need --save-result");
    EXPECT_EQ(refusal({option, "x", "--save-result"}), "accepted");
  }
}

TEST(LoadOptions, AFileOfPromptsIsNotIgnored) {
  EXPECT_EQ(refusal({"--verify-counts",
                     "--backend",
                     "openai-chat",
                     "--dataset-name",
                     "custom",
                     "--dataset-path",
                     "x"}),
            "--dataset-path has no effect with --verify-counts, which asks itself");
}

TEST(LoadOptions, SendWhatTheServerTakes) {
  EXPECT_EQ(*parsed({"--repetition-penalty", "100"}).fields.repetition_penalty, 100.0);
  EXPECT_NE(refusal({"--repetition-penalty", "100.1"}), "accepted");
}

TEST(LoadOptions, NameABadLimitOfGoodput) {
  EXPECT_EQ(refusal({"--goodput", "ttft:200", "itl:5"}),
            "--goodput (command line): expected ttft:MS, tpot:MS or e2el:MS, as in ttft:200, came "
            "\"itl:5\"");
  EXPECT_NE(refusal({"--goodput", "ttft"}).find("ttft:MS"), std::string::npos);
  EXPECT_NE(refusal({"--goodput", "ttft:-1"}).find("expected a number from 0"), std::string::npos);
  EXPECT_NE(refusal({"--num-prompts", "3", "ttft:1"}).find("unexpected argument"),
            std::string::npos);
}

}  // namespace
}  // namespace phalanx::load
