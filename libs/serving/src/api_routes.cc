// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/api_routes.h"

#include <optional>
#include <utility>
#include <variant>

#include "answer.h"
#include "ignored_fields.h"

namespace phalanx::serving {

namespace {

constexpr std::uint32_t kCompletionDefaultTokens = 16;  // what the completions API documents

// What comes out of a body: generations to run, or the answer that the client gets instead.
struct Prepared {
  AnswerOptions answer;
  std::vector<GenerationRequest> prompts;
  std::vector<std::string> ignored_fields;
  std::optional<openai::ApiError> error;
};

openai::RequestBounds bounds_of(const ServedModel& model) {
  openai::RequestBounds bounds;
  bounds.vocab_size = static_cast<TokenId>(model.vocab);
  return bounds;
}

// What a body may multiply at most, besides n and prompts × n (RequestBounds).
constexpr std::size_t kTopLogprobsPerStepMax = 512;          // prompts × n × top_logprobs
constexpr std::size_t kEchoBytesMax = std::size_t{4} << 20;  // echoed text × n

std::optional<openai::ApiError> check_top_logprobs(const openai::GenerationFields& fields,
                                                   std::size_t prompts,
                                                   const std::string& field) {
  const std::size_t asked = prompts * fields.n * fields.top_logprobs.value_or(0);
  if (asked <= kTopLogprobsPerStepMax) {
    return std::nullopt;
  }
  return openai::invalid_field(field,
                               field + ": expected prompts × n × " + field + " of at most " +
                                   std::to_string(kTopLogprobsPerStepMax) + ", found " +
                                   std::to_string(asked));
}

std::optional<openai::ApiError> check_echo(const std::vector<std::string>& texts, std::size_t n) {
  std::size_t bytes = 0;
  for (const std::string& text : texts) {
    bytes += text.size() * n;
  }
  if (bytes <= kEchoBytesMax) {
    return std::nullopt;
  }
  return openai::invalid_field("echo",
                               "echo: expected prompts × n of at most " +
                                   std::to_string(kEchoBytesMax) + " bytes, found " +
                                   std::to_string(bytes) + "; lower n or leave echo out");
}

std::optional<openai::ApiError> check_model(const ServedModel& model, const std::string& asked) {
  if (asked.empty() || asked == model.name) {
    return std::nullopt;
  }
  return openai::model_not_found(asked, model.name);
}

AnswerOptions answer_options(ApiKind kind, const openai::GenerationFields& fields) {
  AnswerOptions options;
  options.kind = kind;
  options.stream = fields.stream;
  options.include_usage = fields.include_usage;
  options.continuous_usage = fields.continuous_usage_stats;
  options.logprobs = fields.top_logprobs.has_value();
  options.ignored_fields = ignored_fields_text(fields.ignored_fields);
  return options;
}

// Adds one prompt; false if it was refused.
bool add_prompt(const ServedModel& model,
                const openai::GenerationFields& fields,
                std::vector<TokenId> ids,
                const PromptOrigin& origin,
                std::uint64_t seed,
                Prepared* out) {
  auto completed = complete_request(model, fields, std::move(ids), origin, seed);
  if (auto* error = std::get_if<openai::ApiError>(&completed)) {
    out->error = std::move(*error);
    return false;
  }
  out->prompts.push_back(std::get<GenerationRequest>(std::move(completed)));
  return true;
}

Prepared prepare_chat(const ServedModel& model, const std::string& body, std::uint64_t seed) {
  Prepared out;
  auto parsed = openai::parse_chat_request(body, bounds_of(model));
  if (auto* error = std::get_if<openai::ApiError>(&parsed)) {
    out.error = std::move(*error);
    return out;
  }
  const auto& request = std::get<openai::ChatRequest>(parsed);
  if ((out.error = check_model(model, request.model))) {
    return out;
  }
  if ((out.error = check_top_logprobs(request.generation, 1, "top_logprobs"))) {
    return out;
  }
  auto ids = tokenize_chat(model, request.conversation);
  if (auto* error = std::get_if<openai::ApiError>(&ids)) {
    out.error = std::move(*error);
    return out;
  }
  out.answer = answer_options(ApiKind::kChat, request.generation);
  out.ignored_fields = request.generation.ignored_fields;
  add_prompt(model, request.generation, std::get<0>(std::move(ids)), {"messages", 0}, seed, &out);
  return out;
}

Prepared prepare_completion(const ServedModel& model, const std::string& body, std::uint64_t seed) {
  Prepared out;
  auto parsed = openai::parse_completion_request(body, bounds_of(model));
  if (auto* error = std::get_if<openai::ApiError>(&parsed)) {
    out.error = std::move(*error);
    return out;
  }
  const auto& request = std::get<openai::CompletionRequest>(parsed);
  if ((out.error = check_model(model, request.model))) {
    return out;
  }
  if ((out.error = check_top_logprobs(request.generation, request.prompts.size(), "logprobs"))) {
    return out;
  }
  out.answer = answer_options(ApiKind::kCompletion, request.generation);
  out.ignored_fields = request.generation.ignored_fields;
  for (const openai::Prompt& prompt : request.prompts) {
    std::vector<TokenId> ids;
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      auto encoded = tokenize_text(model, *text, request.add_special_tokens);
      if (auto* error = std::get_if<openai::ApiError>(&encoded)) {
        out.error = std::move(*error);
        return out;
      }
      ids = std::get<0>(std::move(encoded));
    } else {
      ids = std::get<std::vector<TokenId>>(prompt);
    }
    if (request.echo) {
      const auto* text = std::get_if<std::string>(&prompt);
      out.answer.echo.push_back(text != nullptr ? *text : model.tokenizer->decode(ids, {false}));
    }
    if (!add_prompt(model,
                    request.generation,
                    std::move(ids),
                    {"prompt", kCompletionDefaultTokens},
                    seed,
                    &out)) {
      return out;
    }
  }
  out.error = check_echo(out.answer.echo, request.generation.n);
  return out;
}

bool is_long(const ApiContext& context, const http::Request& request) {
  return request.body.size() > context.long_body_bytes;
}

openai::ApiError too_many_to_read() {
  return openai::from_error(
      resource_exhausted("too many requests wait to be read; try again later"));
}

// The routes that generate: admission, preparation away from the loop, then an Answer.
class GenerationRoute {
 public:
  using Prepare = Prepared (*)(const ServedModel&, const std::string& body, std::uint64_t seed);

  GenerationRoute(ApiContext context, Prepare prepare, std::shared_ptr<IgnoredFields> seen)
      : context_(std::move(context)), prepare_(prepare), seen_(std::move(seen)) {}

  void operator()(http::Request request, std::shared_ptr<http::Exchange> exchange) const {
    const SteadyTime arrived = context_.clock.now();
    if (Status accepting = context_.accepting(); !accepting) {
      refuse(request.path, *exchange, openai::from_error(accepting.error()));
      return;
    }
    auto ticket = context_.admission.admit(request.body.size());
    if (!ticket) {
      refuse(request.path, *exchange, openai::from_error(ticket.error()));
      return;
    }
    auto job = std::make_shared<Job>();
    job->request = std::move(request);
    job->exchange = std::move(exchange);
    job->ticket = *std::move(ticket);
    job->arrived = arrived;
    job->seed = context_.draw_seed();
    auto work = [job, model = &context_.model, prepare = prepare_] {
      job->prepared = prepare(*model, job->request.body, job->seed);
    };
    auto done = [job, context = context_, seen = seen_] { begin(context, *seen, *job); };
    if (!context_.run_away(is_long(context_, job->request), std::move(work), std::move(done))) {
      refuse(job->request.path, *job->exchange, too_many_to_read());
    }
  }

 private:
  struct Job {
    http::Request request;
    std::shared_ptr<http::Exchange> exchange;
    dispatch::Admission::Ticket ticket;
    SteadyTime arrived;
    std::uint64_t seed = 0;
    Prepared prepared;
  };

  void refuse(const std::string& route,
              http::Exchange& exchange,
              const openai::ApiError& error) const {
    context_.observer.on_request_refused(route, error.http_status);
    respond_error(exchange, error);
  }

  static void begin(const ApiContext& context, IgnoredFields& seen, Job& job) {
    seen.note(job.request.path, job.prepared.ignored_fields);
    if (context.strict_api && !job.prepared.error) {
      job.prepared.error = refuse_unknown(job.prepared.ignored_fields);
    }
    if (job.prepared.error) {
      context.observer.on_request_refused(job.request.path, job.prepared.error->http_status);
      respond_error(*job.exchange, *job.prepared.error);
      return;
    }
    RequestRecord record;
    record.id = job.request.id;
    record.route = job.request.path;
    record.stream = job.prepared.answer.stream;
    record.tokenize_time = context.clock.now() - job.arrived;
    const AnswerContext answer_context{context.model,
                                       context.dispatcher,
                                       context.observer,
                                       context.clock,
                                       context.loop,
                                       context.first_comment,
                                       context.run_away};
    std::make_shared<Answer>(answer_context,
                             std::move(job.prepared.answer),
                             std::move(job.exchange),
                             std::move(record),
                             job.arrived)
        ->start(std::move(job.prepared.prompts), std::move(job.ticket));
  }

  ApiContext context_;
  Prepare prepare_;
  std::shared_ptr<IgnoredFields> seen_;
};

http::Response error_response(int status, const std::string& message) {
  return http::json_response(status, openai::error_body(openai::from_http_status(status, message)));
}

openai::ModelCard card_of(const ServedModel& model) {
  return {model.name, model.created, model.root, model.max_model_len};
}

http::Response tokenize(const ServedModel& model, const std::string& body) {
  auto parsed = openai::parse_tokenize_request(body, bounds_of(model));
  if (const auto* error = std::get_if<openai::ApiError>(&parsed)) {
    return error_answer(*error);
  }
  const auto& asked = std::get<openai::TokenizeRequest>(parsed);
  if (const auto error = check_model(model, asked.model)) {
    return error_answer(*error);
  }
  std::vector<TokenId> ids;
  if (asked.prompt) {
    auto encoded = tokenize_text(model, *asked.prompt, asked.add_special_tokens);
    if (const auto* error = std::get_if<openai::ApiError>(&encoded)) {
      return error_answer(*error);
    }
    ids = std::get<0>(std::move(encoded));
  } else {
    auto chat = tokenize_chat(model, asked.conversation);
    if (const auto* error = std::get_if<openai::ApiError>(&chat)) {
      return error_answer(*error);
    }
    ids = std::get<0>(std::move(chat));
  }
  std::vector<std::string> strings;
  for (std::size_t i = 0; asked.return_token_strs && i < ids.size(); ++i) {
    strings.push_back(model.tokenizer->token_text(ids[i]));
  }
  return http::json_response(
      200,
      openai::tokenize_response(
          ids, model.max_model_len, asked.return_token_strs ? &strings : nullptr));
}

http::Response detokenize(const ServedModel& model, const std::string& body) {
  auto parsed = openai::parse_detokenize_request(body, bounds_of(model));
  if (const auto* error = std::get_if<openai::ApiError>(&parsed)) {
    return error_answer(*error);
  }
  const auto& asked = std::get<openai::DetokenizeRequest>(parsed);
  if (const auto error = check_model(model, asked.model)) {
    return error_answer(*error);
  }
  return http::json_response(
      200, openai::detokenize_response(model.tokenizer->decode(asked.tokens, {false})));
}

// A route that only tokenizes: admitted like the others, and answered away from the loop.
http::Handler pure_route(const ApiContext& context,
                         http::Response (*answer)(const ServedModel&, const std::string& body)) {
  struct Job {
    http::Request request;
    std::shared_ptr<http::Exchange> exchange;
    dispatch::Admission::Ticket ticket;
    http::Response response;
  };
  return [context, answer](http::Request request, std::shared_ptr<http::Exchange> exchange) {
    auto ticket = context.admission.admit(request.body.size());
    if (!ticket) {
      respond_error(*exchange, openai::from_error(ticket.error()));
      return;
    }
    const bool long_body = is_long(context, request);
    auto job = std::make_shared<Job>();
    job->request = std::move(request);
    job->exchange = std::move(exchange);
    job->ticket = *std::move(ticket);
    auto work = [job, model = &context.model, answer] {
      job->response = answer(*model, job->request.body);
    };
    auto done = [job] { job->exchange->respond(std::move(job->response)); };
    if (!context.run_away(long_body, std::move(work), std::move(done))) {
      respond_error(*job->exchange, too_many_to_read());
    }
  };
}

}  // namespace

void add_api_routes(http::RouteTable* routes, const ApiContext& context) {
  const auto seen = std::make_shared<IgnoredFields>();
  const auto add_post = [routes](const char* path, http::Handler handler) {
    routes->add("POST", path, http::json_bodies_only(error_response, std::move(handler)));
  };
  add_post("/v1/chat/completions", GenerationRoute(context, prepare_chat, seen));
  add_post("/v1/completions", GenerationRoute(context, prepare_completion, seen));
  add_post("/tokenize", pure_route(context, tokenize));
  add_post("/detokenize", pure_route(context, detokenize));
  routes->add("GET",
              "/v1/models",
              [context](const http::Request&, const std::shared_ptr<http::Exchange>& exchange) {
                const openai::ModelCard card = card_of(context.model);
                exchange->respond(http::json_response(200, openai::model_list({&card, 1})));
              });
  routes->add(
      "GET",
      "/v1/models/*",
      [context](const http::Request& request, const std::shared_ptr<http::Exchange>& exchange) {
        const std::string asked = request.path.substr(std::string("/v1/models/").size());
        if (const auto error = check_model(context.model, asked)) {
          respond_error(*exchange, *error);
          return;
        }
        exchange->respond(http::json_response(200, openai::model_object(card_of(context.model))));
      });
}

}  // namespace phalanx::serving
