// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/access_policy.h"

#include <gtest/gtest.h>

namespace phalanx::http {
namespace {

Request head(const std::string& host, const std::string& origin = "") {
  Request request;
  request.method = "POST";
  request.target = "/v1/completions";
  if (!host.empty()) {
    request.headers.add("Host", host);
  }
  if (!origin.empty()) {
    request.headers.add("Origin", origin);
  }
  return request;
}

AccessPolicy policy(bool on_loopback,
                    std::vector<std::string> hosts = {},
                    std::vector<std::string> origins = {}) {
  auto made = AccessPolicy::create(on_loopback, std::move(hosts), std::move(origins));
  EXPECT_TRUE(made);
  return *std::move(made);
}

int status_of(const AccessPolicy& rules, const Request& request) {
  const auto refusal = rules.check(request);
  return refusal ? refusal->status : 200;
}

TEST(AccessPolicy, OnLoopbackOnlyLoopbackNamesAreServed) {
  const AccessPolicy rules = policy(true);
  for (const char* host : {"localhost",
                           "localhost:8000",
                           "LocalHost.:8000",
                           "127.0.0.1",
                           "127.0.0.1:8000",
                           "[::ffff:127.0.0.1]:8000",
                           "127.9.9.9:1",
                           "[::1]",
                           "[::1]:8000",
                           "app.localhost",
                           "a.b.LOCALHOST.:8000",
                           ""}) {
    EXPECT_EQ(status_of(rules, head(host)), 200) << host;
  }
  for (const char* host : {"evil.example",
                           "evil.example:8000",
                           "localhost.evil.example",
                           "127.0.0.1.evil.example",
                           "127.0.0.1@evil.example",
                           "192.168.1.7",
                           "0.0.0.0:8000",
                           "[2001:db8::1]:8000",
                           "[::1",
                           "localhost:evil.com",
                           "localhost:80:80",
                           "[::1]evil.com",
                           "[::1]:99999",
                           "[localhost]",
                           "xlocalhost",
                           ".localhost",
                           "app.localhost.evil.example",
                           "[app.localhost]"}) {
    EXPECT_EQ(status_of(rules, head(host)), 421) << host;
  }
}

// Only what the flag takes is told to whoever may start the server.
TEST(AccessPolicy, AdviceIsAFlagThatIsTaken) {
  const auto told = [](const std::string& host, const std::string& origin) {
    const auto refusal = policy(true).check(head(host, origin));
    return refusal ? refusal->message : "";
  };
  EXPECT_NE(told("llm.example:80", "").find("--allowed-hosts llm.example if"), std::string::npos);
  EXPECT_NE(
      told("localhost", "https://chat.example").find("--allowed-origins https://chat.example"),
      std::string::npos);
  for (const std::string& host : {std::string("[::1"),
                                  std::string("*"),
                                  std::string("$(id)"),
                                  std::string(101, 'a')}) {  // too long to be shown
    EXPECT_EQ(told(host, "").find("--allowed-hosts"), std::string::npos) << host;
  }
  for (const auto& [origin, entry] : {std::pair("file://", "file://*"),
                                      std::pair("vscode-webview://1q2w", "vscode-webview://*")}) {
    EXPECT_NE(told("localhost", origin).find("--allowed-origins '" + std::string(entry) + "' if"),
              std::string::npos)
        << told("localhost", origin);
    EXPECT_EQ(status_of(policy(true, {}, {entry}), head("localhost", origin)), 200);
  }
  EXPECT_NE(told("localhost", "null").find("--allowed-origins null if"), std::string::npos);
  for (const char* origin :
       {"*", "https://a/b", "chat.example", "https://$(id)", "http://", "app://a/b", "://"}) {
    EXPECT_EQ(told("localhost", origin).find("--allowed-origins"), std::string::npos) << origin;
  }
}

TEST(AccessPolicy, TheRefusalNamesTheFlagAndWhatCame) {
  const auto host = policy(true).check(head("llm.example:8000"));
  ASSERT_TRUE(host);
  EXPECT_NE(host->message.find("--allowed-hosts llm.example "), std::string::npos) << host->message;
  const auto origin = policy(true).check(head("localhost", "https://evil.example"));
  ASSERT_TRUE(origin);
  EXPECT_EQ(origin->status, 403);
  EXPECT_NE(origin->message.find("--allowed-origins https://evil.example"), std::string::npos);
}

TEST(AccessPolicy, AnAbsoluteTargetCountsBeforeTheHostField) {
  Request request = head("localhost");
  for (const char* target : {"http://evil.example/v1/models", "HTTP://evil.example?x=/localhost"}) {
    request.target = target;
    EXPECT_EQ(status_of(policy(true), request), 421) << target;
  }
}

TEST(AccessPolicy, AllowedHostsAreServedOnEveryPortOrOnTheirs) {
  const AccessPolicy rules = policy(true, {"LLM.example", "other.example:8000"});
  EXPECT_EQ(status_of(rules, head("llm.example")), 200);
  EXPECT_EQ(status_of(rules, head("llm.EXAMPLE:123")), 200);
  EXPECT_EQ(status_of(rules, head("other.example:8000")), 200);
  EXPECT_EQ(status_of(rules, head("other.example:8001")), 421);
  EXPECT_EQ(status_of(rules, head("localhost")), 200);
  EXPECT_EQ(status_of(policy(true, {"*"}), head("any.example")), 200);
}

TEST(AccessPolicy, ElsewhereEveryNameIsServedUnlessSomeAreNamed) {
  EXPECT_EQ(status_of(policy(false), head("any.example")), 200);
  const AccessPolicy rules = policy(false, {"llm.example"});
  EXPECT_EQ(status_of(rules, head("any.example")), 421);
  EXPECT_EQ(status_of(rules, head("llm.example:8000")), 200);
  EXPECT_EQ(status_of(rules, head("127.0.0.1:8000")), 200);
}

TEST(AccessPolicy, ForeignOriginsAreRefused) {
  for (const bool on_loopback : {false, true}) {
    const AccessPolicy rules = policy(on_loopback, {"llm.example"});
    for (const char* origin :
         {"https://evil.example", "null", "http://llm.example.evil", "x", "://"}) {
      EXPECT_EQ(status_of(rules, head("llm.example:8000", origin)), 403) << origin;
    }
    EXPECT_EQ(status_of(rules, head("llm.example:8000", "http://llm.example:8000")), 200);
    EXPECT_EQ(status_of(rules, head("llm.example", "https://llm.example")), 200);
    EXPECT_EQ(status_of(rules, head("llm.example:80", "http://llm.example")), 200);
  }
}

TEST(AccessPolicy, WhatIsNoOriginIsNotServed) {
  for (const AccessPolicy& rules : {policy(true), policy(true, {}, {"*"})}) {
    for (const char* origin : {"http://localhost:evil.com",
                               "http://[::1]evil.com",
                               "http://[::1]:99999",
                               "http://localhost:80:80",
                               "http://localhost/",
                               "http://user@localhost",
                               "http://localhost, http://localhost",
                               "1://localhost",
                               "://localhost",
                               "localhost"}) {
      EXPECT_EQ(status_of(rules, head("localhost", origin)), 403) << origin;
    }
    Request twice = head("localhost", "http://localhost");
    EXPECT_EQ(status_of(rules, twice), 200);
    twice.headers.add("origin", "http://localhost");
    EXPECT_EQ(status_of(rules, twice), 403);
  }
  for (const char* origin : {"null", "file://", "https://any.example", "moz-extension://a-b"}) {
    EXPECT_EQ(status_of(policy(true, {}, {"*"}), head("localhost", origin)), 200) << origin;
  }
}

TEST(AccessPolicy, LoopbackOriginsAreForeignOnlyToAServerOnTheNet) {
  EXPECT_EQ(status_of(policy(true), head("localhost:8000", "http://localhost:3000")), 200);
  EXPECT_EQ(status_of(policy(true), head("127.0.0.1:8000", "http://[::1]:3000")), 200);
  EXPECT_EQ(status_of(policy(true), head("localhost:8000", "http://app.localhost:3000")), 200);
  EXPECT_EQ(status_of(policy(false), head("llm.example", "http://localhost:3000")), 403);
  EXPECT_EQ(status_of(policy(false), head("llm.example", "http://app.localhost:3000")), 403);
}

TEST(AccessPolicy, AllowedOriginsAreServedAndMayReadTheAnswer) {
  const AccessPolicy rules = policy(false, {}, {"https://chat.example", "null"});
  Request request = head("llm.example", "https://Chat.example");
  EXPECT_EQ(status_of(rules, request), 200);
  EXPECT_EQ(status_of(rules, head("llm.example", "null")), 200);
  EXPECT_EQ(status_of(rules, head("llm.example", "https://chat.example:444")), 403);
  const Headers fields = rules.fields_for(request);
  ASSERT_NE(fields.find("access-control-allow-origin"), nullptr);
  EXPECT_EQ(*fields.find("access-control-allow-origin"), "https://Chat.example");
  EXPECT_EQ(*fields.find("vary"), "origin");
  EXPECT_NE(fields.find("access-control-expose-headers")->find("x-should-retry"),
            std::string::npos);
  EXPECT_EQ(fields.find("access-control-allow-methods"), nullptr);
  request.method = "OPTIONS";
  request.headers.add("access-control-request-method", "POST");
  request.headers.add("access-control-request-headers", "content-type");
  const Headers preflight = rules.fields_for(request);
  ASSERT_NE(preflight.find("access-control-allow-methods"), nullptr);
  EXPECT_EQ(*preflight.find("access-control-allow-headers"), "content-type");
  EXPECT_TRUE(rules.fields_for(head("llm.example")).fields().empty());
}

// Extensions and applications get a host that is drawn.
TEST(AccessPolicy, AllOriginsOfASchemeThatIsNotOfTheWebAreServedByOneEntry) {
  const AccessPolicy rules = policy(true, {}, {"vscode-webview://*", "App://*"});
  for (const char* origin :
       {"vscode-webview://1q2w3e", "VSCODE-webview://a-b", "app://localhost", "app://"}) {
    EXPECT_EQ(status_of(rules, head("localhost", origin)), 200) << origin;
  }
  for (const char* origin : {"null",
                             "https://app",
                             "vscode-webview2://a",
                             "xapp://a",
                             "app://a/b",
                             "app:a",
                             "moz-extension://a"}) {
    EXPECT_EQ(status_of(rules, head("localhost", origin)), 403) << origin;
  }
  for (const char* entry : {"http://*", "HTTPS://*", "://*", "1a://*", "app://*.b", "app://a*"}) {
    EXPECT_FALSE(AccessPolicy::create(true, {}, {entry})) << entry;
  }
}

TEST(AccessPolicy, RefusesEntriesThatAreNoHostOrOrigin) {
  const auto host = AccessPolicy::create(true, {"http://llm.example"}, {});
  ASSERT_FALSE(host);
  EXPECT_FALSE(AccessPolicy::create(true, {"llm.example:x"}, {}));
  EXPECT_FALSE(AccessPolicy::create(true, {}, {"https://chat.example:x"}));
  EXPECT_TRUE(AccessPolicy::create(true, {"[2001:db8::1]:80"}, {"https://chat.example:444"}));
  EXPECT_NE(host.error().message().find("--allowed-hosts"), std::string::npos);
  const auto origin = AccessPolicy::create(true, {}, {"chat.example"});
  ASSERT_FALSE(origin);
  EXPECT_NE(origin.error().message().find("--allowed-origins"), std::string::npos);
}

}  // namespace
}  // namespace phalanx::http
