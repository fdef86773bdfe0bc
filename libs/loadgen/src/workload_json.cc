// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <nlohmann/json.hpp>

#include "phalanx/loadgen/workload.h"

namespace phalanx::loadgen {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kMaxOutputTokens = 1U << 24U;

// Of a request body: with another value of theirs, StreamAudit would blame the server.
constexpr std::array kAuditedFields = {"stream",
                                       "stream_options",
                                       "n",
                                       "best_of",
                                       "echo",
                                       "max_tokens",
                                       "max_completion_tokens",
                                       "prompt",
                                       "messages"};

Result<PlannedRequest> parse_line(std::string_view text, std::uint32_t default_output_len) {
  const Json line = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!line.is_object() || !line.contains("prompt") || !line["prompt"].is_string()) {
    return invalid_argument(R"(expected {"prompt": "text", "output_tokens": N})");
  }
  PlannedRequest request;
  request.prompt = line["prompt"].get<std::string>();
  request.max_tokens = default_output_len;
  if (line.contains("output_tokens")) {
    const Json& tokens = line["output_tokens"];
    if (!tokens.is_number_unsigned() || tokens.get<std::uint64_t>() == 0 ||
        tokens.get<std::uint64_t>() > kMaxOutputTokens) {
      return invalid_argument("output_tokens: expected an integer from 1 to " +
                              std::to_string(kMaxOutputTokens));
    }
    request.max_tokens = tokens.get<std::uint32_t>();
  }
  return request;
}

template <typename Value>
void set_if(Json& body, const char* key, const std::optional<Value>& value) {
  if (value) {
    body[key] = *value;
  }
}

}  // namespace

Result<std::vector<PlannedRequest>> parse_custom_workload(std::string_view lines,
                                                          std::size_t count,
                                                          std::uint32_t default_output_len) {
  std::vector<PlannedRequest> requests;
  std::size_t number = 0;
  while (!lines.empty() && requests.size() < count) {
    const std::size_t end = lines.find('\n');
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      continue;
    }
    auto request = parse_line(line, default_output_len);
    if (!request) {
      return std::move(request).error().with("line " + std::to_string(number));
    }
    requests.push_back(std::move(request).value());
  }
  if (requests.empty()) {
    return invalid_argument("the dataset holds no request");
  }
  const std::size_t distinct = requests.size();
  requests.reserve(count);
  for (std::size_t i = distinct; i < count; ++i) {
    requests.push_back(requests[i % distinct]);
  }
  return requests;
}

Result<std::string> request_body(const PlannedRequest& request,
                                 const RequestFields& fields,
                                 Backend backend) {
  Json body;
  body["model"] = fields.model;
  const std::string* text = std::get_if<std::string>(&request.prompt);
  if (backend == Backend::kChat) {
    if (text == nullptr) {
      return invalid_argument("chat takes texts, not token ids");
    }
    body["messages"] = Json::array({Json{{"role", "user"}, {"content", *text}}});
    body["max_completion_tokens"] = request.max_tokens;
  } else {
    body["prompt"] =
        text == nullptr ? Json(std::get<std::vector<TokenId>>(request.prompt)) : Json(*text);
    body["max_tokens"] = request.max_tokens;
  }
  body["stream"] = true;
  body["stream_options"] = Json{{"include_usage", true}};
  if (fields.ignore_eos) {
    body["ignore_eos"] = true;
  }
  set_if(body, "temperature", fields.temperature);
  set_if(body, "top_p", fields.top_p);
  set_if(body, "top_k", fields.top_k);
  set_if(body, "min_p", fields.min_p);
  set_if(body, "repetition_penalty", fields.repetition_penalty);
  set_if(body, "presence_penalty", fields.presence_penalty);
  set_if(body, "frequency_penalty", fields.frequency_penalty);
  if (!fields.extra_body_json.empty()) {
    const Json extra = Json::parse(fields.extra_body_json, nullptr, false);
    if (!extra.is_object()) {
      return invalid_argument("--extra-body: expected a JSON object, came " +
                              fields.extra_body_json.substr(0, 80));
    }
    for (const char* const name : kAuditedFields) {
      if (extra.contains(name)) {
        return invalid_argument("--extra-body: \"" + std::string(name) +
                                "\" cannot be set: streams are audited, which have one choice and "
                                "what the other options ask for");
      }
    }
    body.update(extra);
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace phalanx::loadgen
