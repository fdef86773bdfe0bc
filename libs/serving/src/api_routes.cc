// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/api_routes.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "answer.h"
#include "error_answer.h"
#include "ignored_fields.h"
#include "preparation.h"
#include "tokenize_routes.h"

namespace phalanx::serving {

namespace {

// The routes that generate: a place, preparation away from the loop, then an Answer.
class GenerationRoute {
 public:
  GenerationRoute(ApiContext context, openai::Api api, std::shared_ptr<IgnoredFields> seen)
      : context_(std::move(context)), api_(api), seen_(std::move(seen)) {}

  void operator()(http::Request request, std::shared_ptr<http::Exchange> exchange) const {
    auto job = std::make_shared<Job>();
    job->key = {request.connection, request.ordinal};
    job->request = std::move(request);
    job->exchange = std::move(exchange);
    job->arrived = context_.clock.now();
    job->notes = notes_of(*job->exchange);
    const wire::Admit wish{job->key, job->request.path, job->request.body.size(), true};
    context_.desk.admit(wish, [context = context_, api = api_, seen = seen_, job](Status place) {
      if (!place) {
        respond_error(*job->exchange, openai::from_error(place.error()));
        return;
      }
      job->place = Place(context.desk, job->key);
      prepare(context, api, seen, job);
    });
  }

 private:
  // Those that another process has made, or new ones.
  [[nodiscard]] AnswerNotes notes_of(http::Exchange& exchange) const {
    if (const http::Resumed* const resumed = exchange.resumed()) {
      return to_answer_notes(resumed->notes);
    }
    AnswerNotes notes;
    notes.salt = static_cast<std::uint64_t>(steady_clock().now().time_since_epoch().count());
    notes.created = static_cast<std::uint64_t>(unix_seconds());
    notes.seed = context_.draw_seed();
    exchange.note(to_handler_notes(notes));
    return notes;
  }

  struct Job {
    wire::RequestKey key;
    http::Request request;
    std::shared_ptr<http::Exchange> exchange;
    Place place;
    SteadyTime arrived;
    AnswerNotes notes;
    Prepared prepared;
  };

  static void prepare(const ApiContext& context,
                      openai::Api api,
                      const std::shared_ptr<IgnoredFields>& seen,
                      const std::shared_ptr<Job>& job) {
    Unprepared unprepared{
        {}, head_of(api, job->request.id, job->notes, context.model), job->notes.seed};
    const bool long_body = is_long(context, job->request);
    const auto prepare = api == openai::Api::kChat ? prepare_chat : prepare_completion;
    auto work =
        [job, unprepared = std::move(unprepared), model = &context.model, prepare]() mutable {
          unprepared.body = job->request.body.take_text();
          job->prepared = prepare(*model, std::move(unprepared));
        };
    auto done = [job, context, seen] { begin(context, *seen, *job); };
    if (!context.run_away(long_body, std::move(work), std::move(done))) {
      refuse(*job, too_many_to_read());
    }
  }

  static void refuse(Job& job, const openai::ApiError& error) {
    job.place.refuse(error.http_status);
    respond_error(*job.exchange, error);
  }

  static void begin(const ApiContext& context, IgnoredFields& seen, Job& job) {
    context.loop.name_callback("a generation begins");
    seen.note(job.request.path, job.prepared.ignored_fields);
    if (context.strict_api && !job.prepared.error) {
      job.prepared.error = refuse_unknown(job.prepared.ignored_fields);
    }
    if (job.prepared.error) {
      refuse(job, *job.prepared.error);
      return;
    }
    RequestSummary summary;
    summary.id = job.request.id;
    summary.stream = job.prepared.answer.stream;
    summary.tokenize_time = context.clock.now() - job.arrived;
    if (const http::Resumed* const resumed = job.exchange->resumed();
        resumed != nullptr && resumed->streaming) {
      summary.told = job.notes.told;
    }
    for (const GenerationRequest& prompt : job.prepared.prompts) {
      summary.booked_tokens += prompt.booked_tokens;
    }
    job.prepared.answer.notes = job.notes;
    const AnswerContext answer_context{context.model,
                                       context.desk,
                                       context.loop,
                                       context.first_comment,
                                       context.run_away,
                                       context.mark};
    std::make_shared<Answer>(answer_context,
                             std::move(job.prepared.answer),
                             std::move(job.exchange),
                             std::move(job.place))
        ->start(summary, std::move(job.prepared.prompts));
  }

  ApiContext context_;
  openai::Api api_;
  std::shared_ptr<IgnoredFields> seen_;
};

openai::ModelCard card_of(const ServedModel& model, const std::string& name) {
  return {name, model.created, model.root, model.max_model_len};
}

void list_models(const ApiContext& context, http::Exchange& exchange) {
  std::vector<openai::ModelCard> cards = {card_of(context.model, context.model.name)};
  for (const std::string& alias : context.model.aliases) {
    cards.push_back(card_of(context.model, alias));
  }
  exchange.respond(http::json_response(200, openai::model_list(cards)));
}

}  // namespace

http::Response error_response(int status, const std::string& message) {
  http::Response response = error_answer(openai::from_http_status(status, message));
  if (status == 500) {  // who worked for it may have died of it
    response.headers.set("x-should-retry", "false");
  }
  return response;
}

void add_api_routes(http::RouteTable* routes, const ApiContext& context) {
  const auto seen = std::make_shared<IgnoredFields>();
  const auto add_post = [routes](const char* path, http::Handler handler) {
    routes->add("POST", path, http::json_bodies_only(error_response, std::move(handler)));
  };
  add_post("/v1/chat/completions", GenerationRoute(context, openai::Api::kChat, seen));
  add_post("/v1/completions", GenerationRoute(context, openai::Api::kText, seen));
  // What SDKs of these APIs ask for first.
  for (const char* const other : {"/v1/responses", "/v1/messages"}) {
    routes->add_instead(other, "/v1/chat/completions");
  }
  add_post("/tokenize", tokenize_route(context, seen));
  add_post("/detokenize", detokenize_route(context, seen));
  routes->add("GET",
              "/v1/models",
              [context](const http::Request&, const std::shared_ptr<http::Exchange>& exchange) {
                list_models(context, *exchange);
              });
  routes->add(
      "GET",
      "/v1/models/*",
      [context](const http::Request& request, const std::shared_ptr<http::Exchange>& exchange) {
        const std::string asked = request.path.substr(std::string("/v1/models/").size());
        if (asked.empty()) {
          return list_models(context, *exchange);
        }
        if (const auto error = check_model(context.model, asked)) {
          return respond_error(*exchange, *error);
        }
        exchange->respond(
            http::json_response(200, openai::model_object(card_of(context.model, asked))));
      });
}

}  // namespace phalanx::serving
