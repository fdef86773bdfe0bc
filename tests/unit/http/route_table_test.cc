// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/route_table.h"

#include <gtest/gtest.h>

namespace phalanx::http {
namespace {

class RecordingExchange final : public Exchange {
 public:
  explicit RecordingExchange(Response* out) : out_(out) {}
  void respond(Response response) override { *out_ = std::move(response); }
  void start_stream(int /*status*/, Headers /*headers*/) override {}
  void write(std::string /*data*/) override {}
  void finish() override {}
  [[nodiscard]] const Resumed* resumed() const override { return nullptr; }
  void hold(std::size_t /*bytes*/) override {}
  void note(const HandlerNotes& /*notes*/) override {}
  [[nodiscard]] std::size_t pending_bytes() const override { return 0; }
  [[nodiscard]] bool open() const override { return true; }
  void on_close(std::function<void()> /*callback*/) override {}

 private:
  Response* out_;
};

class RouteTableTest : public testing::Test {
 protected:
  RouteTableTest() : table_(text_response_of) {
    for (const char* path : {"/a", "/models*", "/models/special*"}) {
      add("GET", path);
    }
    add("POST", "/a");
    add("POST", "/b");
  }

  static Response text_response_of(int status, const std::string& message) {
    return text_response(status, message);
  }

  void add(const std::string& method, const std::string& path) {
    table_.add(
        method, path, [method, path](const Request&, const std::shared_ptr<Exchange>& exchange) {
          exchange->respond(text_response(200, method + path));
        });
  }

  Response ask(std::string method, std::string path) {
    Request request;
    request.method = std::move(method);
    request.path = std::move(path);
    Response response;
    table_(std::move(request), std::make_shared<RecordingExchange>(&response));
    return response;
  }

  RouteTable table_;
};

TEST_F(RouteTableTest, FindsTheHandlerOfPathAndMethod) {
  EXPECT_EQ(ask("GET", "/a").body, "GET/a");
  EXPECT_EQ(ask("POST", "/a").body, "POST/a");
}

TEST_F(RouteTableTest, TheLongestPrefixWins) {
  EXPECT_EQ(ask("GET", "/models/x").body, "GET/models*");
  EXPECT_EQ(ask("GET", "/models/special/x").body, "GET/models/special*");
}

TEST_F(RouteTableTest, AnswersUnknownPathsAndMethods) {
  EXPECT_EQ(ask("GET", "/nowhere").status, 404);
  const Response wrong_method = ask("DELETE", "/a");
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(*wrong_method.headers.find("allow"), "OPTIONS, GET, HEAD, POST");
  EXPECT_EQ(ask("GET", "/b").status, 405);
}

TEST_F(RouteTableTest, NamesThePathThatIsMeant) {
  add("POST", "/v1/completions");
  add("POST", "/v1/chat/completions");
  const auto hint = [this](const std::string& path) {
    const std::string said = ask("POST", path).body.text();
    const std::size_t at = said.find("; there is ");
    return at == std::string::npos ? "" : said.substr(at + std::string("; there is ").size());
  };
  EXPECT_EQ(hint("/completions"), "/v1/completions");
  EXPECT_EQ(hint("/chat/completions"), "/v1/chat/completions");
  EXPECT_EQ(hint("/v1/v1/chat/completions"), "/v1/chat/completions");
  EXPECT_EQ(hint("/v1/completions//"), "/v1/completions");
  EXPECT_EQ(hint("/ompletions"), "");
  EXPECT_EQ(hint("/"), "");
  EXPECT_LT(ask("POST", "/" + std::string(20'000, 'x')).body.size(), 200U);
}

TEST_F(RouteTableTest, NamesThePathThatThereIsInstead) {
  add("POST", "/v1/chat/completions");
  table_.add_instead("/v1/responses", "/v1/chat/completions");
  const auto said = [this](const std::string& path) {
    const Response response = ask("POST", path);
    EXPECT_EQ(response.status, 404) << path;
    return response.body.text();
  };
  EXPECT_EQ(said("/v1/responses"),
            "no such page: POST /v1/responses; there is /v1/chat/completions");
  for (const char* const path :
       {"/v1/responses/", "/v1/responses/a/b", "/responses", "/v1/v1/responses"}) {
    EXPECT_NE(said(path).find("there is /v1/chat/completions"), std::string::npos) << path;
  }
  EXPECT_EQ(said("/v1/responses2"), "no such page: POST /v1/responses2");
  EXPECT_EQ(said("/v1"), "no such page: POST /v1");
}

TEST_F(RouteTableTest, AnswersOptionsAndHead) {
  const Response options = ask("OPTIONS", "/b");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(*options.headers.find("allow"), "OPTIONS, POST");
  EXPECT_EQ(ask("HEAD", "/a").body, "GET/a");
  EXPECT_EQ(ask("HEAD", "/b").status, 405);
}

// What a handler of JSON answers to a body of that type and coding; "" = a body without one.
Response answer_to(const std::string& content_type,
                   const std::string& body = "{}",
                   const std::string& coding = "") {
  const Handler handler = json_bodies_only(
      [](int status, const std::string& message) { return text_response(status, message); },
      [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
        exchange->respond(text_response(200, request.body.text()));
      });
  Request request;
  request.body = body;
  if (!content_type.empty()) {
    request.headers.add("Content-Type", content_type);
  }
  if (!coding.empty()) {
    request.headers.add("Content-Encoding", coding);
  }
  Response response;
  handler(std::move(request), std::make_shared<RecordingExchange>(&response));
  return response;
}

TEST(JsonBodiesOnly, TakesJsonByAnyOfItsNames) {
  for (const char* type : {"application/json",
                           "Application/JSON; charset=utf-8",
                           "application/json ;x=y",
                           "application/problem+json",
                           ""}) {
    EXPECT_EQ(answer_to(type).status, 200) << type;
  }
  EXPECT_EQ(answer_to("text/plain", "").status, 200) << "there is no body to be wrong about";
}

TEST(JsonBodiesOnly, RefusesABodyThatIsCompressed) {
  const Response response = answer_to("application/json", "{}", "gzip");
  EXPECT_EQ(response.status, 415);
  EXPECT_EQ(response.body.text(),
            "expected a body without content-encoding, came \"gzip\"; send it as it is");
  EXPECT_EQ(answer_to("application/json", "{}", "Identity").status, 200);
  EXPECT_EQ(answer_to("application/json", "", "gzip").status, 200);
}

TEST(JsonBodiesOnly, RefusesABodyThatCallsItselfSomethingElse) {
  for (const char* type : {"text/plain",
                           "text/plain; x=application/json",
                           "application/jsonp",
                           "multipart/form-data; boundary=x",
                           ";application/json",
                           "+json"}) {
    const Response response = answer_to(type);
    EXPECT_EQ(response.status, 415) << type;
    EXPECT_NE(response.body.text().find("content-type: application/json"), std::string::npos);
    EXPECT_EQ(response.body.text().find("curl"), std::string::npos);
  }
  EXPECT_NE(answer_to("application/x-www-form-urlencoded").body.text().find("curl -d"),
            std::string::npos);
}

}  // namespace
}  // namespace phalanx::http
