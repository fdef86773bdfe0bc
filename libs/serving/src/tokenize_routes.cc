// SPDX-License-Identifier: Apache-2.0
#include "tokenize_routes.h"

#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/result.h"

#include "error_answer.h"
#include "ignored_fields.h"
#include "preparation.h"

namespace phalanx::serving {

namespace {

// What a body may become at most: a token of four bytes can be a hundred, and its id.
constexpr std::size_t kMaxAnswerBytes = std::size_t{16} << 20;

openai::ApiError too_long_an_answer(const std::string& field, const std::string& what) {
  return openai::invalid_field(field,
                               field + ": expected what gives an answer of at most " +
                                   std::to_string(kMaxAnswerBytes) + " bytes; send less " + what);
}

struct Answered {
  http::Response response;
  std::vector<std::string> ignored_fields;
};

openai::ApiResult<std::vector<TokenId>> ids_of(const ServedModel& model,
                                               const openai::TokenizeRequest& asked) {
  return asked.prompt
             ? tokenize_text(model, *asked.prompt, asked.add_special_tokens)
             : tokenize_chat(model, asked.conversation, static_cast<std::int64_t>(unix_seconds()));
}

openai::ApiResult<std::string> answer_to(const ServedModel& model,
                                         const openai::TokenizeRequest& asked) {
  PHALANX_TRY(const std::vector<TokenId> ids, ids_of(model, asked));
  const std::string field = asked.prompt ? "prompt" : "messages";
  const std::string less = asked.return_token_strs ? "text, or no return_token_strs" : "text";
  std::vector<std::string> strings;
  std::size_t bytes = 0;
  for (std::size_t i = 0; asked.return_token_strs && i < ids.size(); ++i) {
    strings.push_back(model.tokenizer->token_text(ids[i]));
    bytes += strings.back().size();
    if (bytes > kMaxAnswerBytes) {
      return too_long_an_answer(field, less);
    }
  }
  std::string answer = openai::tokenize_response(
      ids, model.max_model_len, asked.return_token_strs ? &strings : nullptr);
  if (answer.size() > kMaxAnswerBytes) {
    return too_long_an_answer(field, less);
  }
  return answer;
}

openai::ApiResult<std::string> answer_to(const ServedModel& model,
                                         const openai::DetokenizeRequest& asked) {
  std::size_t bytes = 0;
  for (const TokenId token : asked.tokens) {
    bytes += model.tokenizer->token_bytes(token).size();
  }
  std::string answer =
      bytes > kMaxAnswerBytes
          ? std::string()
          : openai::detokenize_response(model.tokenizer->decode(asked.tokens, {false}));
  if (bytes > kMaxAnswerBytes || answer.size() > kMaxAnswerBytes) {
    return too_long_an_answer("tokens", "tokens");
  }
  return answer;
}

template <typename Asked>
Answered answered(const ServedModel& model, bool strict_api, openai::ApiResult<Asked> parsed) {
  if (!parsed) {
    return {error_answer(parsed.error()), {}};
  }
  Answered out{{}, std::move(parsed->ignored_fields)};
  std::optional<openai::ApiError> error = check_model(model, parsed->model);
  if (!error && strict_api) {
    error = refuse_unknown(out.ignored_fields);
  }
  openai::ApiResult<std::string> body =
      error ? openai::ApiResult<std::string>(*std::move(error)) : answer_to(model, *parsed);
  out.response = body ? http::json_response(200, *std::move(body)) : error_answer(body.error());
  add_ignored_fields(ignored_fields_text(out.ignored_fields), &out.response.headers);
  return out;
}

Answered tokenize(const ServedModel& model, bool strict_api, const std::string& body) {
  return answered(model, strict_api, openai::parse_tokenize_request(body, bounds_of(model)));
}

Answered detokenize(const ServedModel& model, bool strict_api, const std::string& body) {
  return answered(model, strict_api, openai::parse_detokenize_request(body, bounds_of(model)));
}

http::Handler pure_route(const ApiContext& context,
                         std::shared_ptr<IgnoredFields> seen,
                         Answered (*answer)(const ServedModel&,
                                            bool strict_api,
                                            const std::string& body)) {
  struct Job {
    wire::RequestKey key;
    http::Request request;
    std::shared_ptr<http::Exchange> exchange;
    Place place;
    Answered answered;
  };
  const auto begin = [context, seen = std::move(seen), answer](const std::shared_ptr<Job>& job) {
    job->place = Place(context.desk, job->key);
    const bool long_body = is_long(context, job->request);
    auto work = [job, model = &context.model, strict = context.strict_api, answer] {
      job->answered = answer(*model, strict, job->request.body.take_text());
    };
    auto done = [job, seen, &loop = context.loop] {
      loop.name_callback("tokens of a text are there");
      seen->note(job->request.path, job->answered.ignored_fields);
      job->place.end(wire::outcome::kTokenized, "");
      job->exchange->respond(std::move(job->answered.response));
    };
    if (!context.run_away(long_body, std::move(work), std::move(done))) {
      const openai::ApiError error = too_many_to_read();
      job->place.refuse(error.http_status);
      respond_error(*job->exchange, error);
    }
  };
  return [&desk = context.desk, begin](http::Request request,
                                       std::shared_ptr<http::Exchange> exchange) {
    auto job = std::make_shared<Job>();
    job->key = {request.connection, request.ordinal};
    job->request = std::move(request);
    job->exchange = std::move(exchange);
    const wire::Admit wish{job->key, job->request.path, job->request.body.size(), false};
    desk.admit(wish, [job, begin](Status place) {
      if (!place) {
        respond_error(*job->exchange, openai::from_error(place.error()));
        return;
      }
      begin(job);
    });
  };
}

}  // namespace

http::Handler tokenize_route(const ApiContext& context, std::shared_ptr<IgnoredFields> seen) {
  return pure_route(context, std::move(seen), tokenize);
}

http::Handler detokenize_route(const ApiContext& context, std::shared_ptr<IgnoredFields> seen) {
  return pure_route(context, std::move(seen), detokenize);
}

bool is_long(const ApiContext& context, const http::Request& request) {
  return request.body.size() > context.long_body_bytes;
}

openai::ApiError too_many_to_read() {
  return openai::from_error(
      resource_exhausted("too many requests wait to be read; try again later"));
}

}  // namespace phalanx::serving
