// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/api_routes.h"

#include <optional>
#include <utility>

#include "answer.h"
#include "ignored_fields.h"
#include "preparation.h"
#include "tokenize_routes.h"

namespace phalanx::serving {

namespace {

// The routes that generate: admission, preparation away from the loop, then an Answer.
class GenerationRoute {
 public:
  GenerationRoute(ApiContext context, ApiKind kind, std::shared_ptr<IgnoredFields> seen)
      : context_(std::move(context)), kind_(kind), seen_(std::move(seen)) {}

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
    Unprepared unprepared{
        {}, head_of(kind_, job->request.id, arrived, context_.model), context_.draw_seed()};
    const bool long_body = is_long(context_, job->request);
    const auto prepare = kind_ == ApiKind::kChat ? prepare_chat : prepare_completion;
    auto work =
        [job, unprepared = std::move(unprepared), model = &context_.model, prepare]() mutable {
          unprepared.body = job->request.body.take_text();
          job->prepared = prepare(*model, std::move(unprepared));
        };
    auto done = [job, context = context_, seen = seen_] { begin(context, *seen, *job); };
    if (!context_.run_away(long_body, std::move(work), std::move(done))) {
      refuse(job->request.path, *job->exchange, too_many_to_read());
    }
  }

 private:
  struct Job {
    http::Request request;
    std::shared_ptr<http::Exchange> exchange;
    dispatch::Admission::Ticket ticket;
    SteadyTime arrived;
    Prepared prepared;
  };

  void refuse(const std::string& route,
              http::Exchange& exchange,
              const openai::ApiError& error) const {
    context_.observer.on_request_refused(route, error.http_status);
    respond_error(exchange, error);
  }

  // What the body has turned out to be counts from here on.
  static std::optional<openai::ApiError> book(Job& job) {
    std::uint64_t tokens = 0;
    for (const GenerationRequest& prompt : job.prepared.prompts) {
      tokens += prompt.booked_tokens;
    }
    if (const Status room = job.ticket.correct(tokens); !room) {
      return openai::from_error(room.error());
    }
    return std::nullopt;
  }

  static void begin(const ApiContext& context, IgnoredFields& seen, Job& job) {
    context.loop.name_callback("a generation begins");
    seen.note(job.request.path, job.prepared.ignored_fields);
    if (context.strict_api && !job.prepared.error) {
      job.prepared.error = refuse_unknown(job.prepared.ignored_fields);
    }
    if (!job.prepared.error) {
      job.prepared.error = book(job);
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
  ApiKind kind_;
  std::shared_ptr<IgnoredFields> seen_;
};

http::Response error_response(int status, const std::string& message) {
  return http::json_response(status, openai::error_body(openai::from_http_status(status, message)));
}

openai::ModelCard card_of(const ServedModel& model) {
  return {model.name, model.created, model.root, model.max_model_len};
}

}  // namespace

void add_api_routes(http::RouteTable* routes, const ApiContext& context) {
  const auto seen = std::make_shared<IgnoredFields>();
  const auto add_post = [routes](const char* path, http::Handler handler) {
    routes->add("POST", path, http::json_bodies_only(error_response, std::move(handler)));
  };
  add_post("/v1/chat/completions", GenerationRoute(context, ApiKind::kChat, seen));
  add_post("/v1/completions", GenerationRoute(context, ApiKind::kCompletion, seen));
  add_post("/tokenize", tokenize_route(context, seen));
  add_post("/detokenize", detokenize_route(context, seen));
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
