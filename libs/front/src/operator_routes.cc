// SPDX-License-Identifier: Apache-2.0
#include "phalanx/front/operator_routes.h"

#include <memory>
#include <utility>

#include "phalanx/base/version.h"
#include "phalanx/documents/status_document.h"
#include "phalanx/http/sse.h"
#include "phalanx/openai/api_error.h"
#include "phalanx/openai/responses.h"
#include "phalanx/serving/api_routes.h"
#include "phalanx/wire/codec.h"

namespace phalanx::front {

namespace {

using Exchange = std::shared_ptr<http::Exchange>;

constexpr const char* kJson = "application/json";
constexpr const char* kPrometheus = "text/plain; version=0.0.4; charset=utf-8";

void respond_to(const Exchange& exchange, int status, std::string text, const char* content_type) {
  http::Response response = http::text_response(status, std::move(text), content_type);
  if (status == 503) {
    response.headers.set("retry-after", http::kRetryAfterSeconds);
  }
  exchange->respond(std::move(response));
}

http::Handler asks(LeaderLink& link, wire::QueryKind kind, const char* content_type) {
  return [&link, kind, content_type](const http::Request&, const Exchange& exchange) {
    link.query(kind, [exchange, content_type](int status, std::string text) {
      respond_to(exchange, status, std::move(text), content_type);
    });
  };
}

// The leader tells its status as a record.
void answer_health(const Exchange& exchange, int status, const std::string& record) {
  const auto answer = wire::decode_admin_answer(record);
  const auto* const shown = answer ? std::get_if<wire::ServerStatus>(&*answer) : nullptr;
  if (shown == nullptr) {
    exchange->respond(serving::error_response(500, "the server's status could not be read"));
    return;
  }
  respond_to(exchange, status, documents::status_json(*shown), kJson);
}

http::Handler says(std::string json) {
  return [json = std::move(json)](const http::Request&, const Exchange& exchange) {
    exchange->respond(http::json_response(200, json));
  };
}

}  // namespace

std::string stream_failure(const std::string& message) {
  return http::sse_event(openai::error_body(openai::from_http_status(500, message))) +
         http::sse_event(std::string(openai::kStreamEnd));
}

void add_operator_routes(http::RouteTable* routes,
                         LeaderLink& link,
                         std::function<void()> before_metrics) {
  routes->add("GET", "/live", [&link](const http::Request&, const Exchange& exchange) {
    link.query(wire::QueryKind::kReady, [exchange](int, const std::string&) {
      // Whatever it says: the loops of both turn.
      exchange->respond(http::json_response(200, R"({"status":"live"})"));
    });
  });
  routes->add("GET", "/version", says(R"({"version":")" + std::string(kVersion) + "\"}"));
  const http::Handler ready = asks(link, wire::QueryKind::kReady, kJson);
  routes->add("GET", "/ready", ready);
  for (const char* const method : {"GET", "POST"}) {
    routes->add(method, "/ping", ready);  // as SageMaker asks, and vLLM answers
  }
  routes->add("GET", "/health", [&link](const http::Request&, const Exchange& exchange) {
    link.query(wire::QueryKind::kHealth, [exchange](int status, const std::string& record) {
      answer_health(exchange, status, record);
    });
  });
  routes->add("GET",
              "/metrics",
              [ask = asks(link, wire::QueryKind::kMetrics, kPrometheus),
               before = std::move(before_metrics)](http::Request request, Exchange exchange) {
                before();
                ask(std::move(request), std::move(exchange));
              });
}

}  // namespace phalanx::front
