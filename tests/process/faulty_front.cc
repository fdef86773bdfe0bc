// SPDX-License-Identifier: Apache-2.0
// phalanx-front with faults that requests ask for, for the process tests. The shipped program holds
// none of this.
//
// A request's field x-crash:
//   route        the loop writes through a null pointer when the request is given to its handler
//   preparation  the process aborts on the thread that prepares its prompt
//   stuck        that thread goes on for ever; a front that is stuck is ended after 4 s here
//   token:N      the loop writes through a null pointer when the request hears of its Nth token,
//                which is told to nobody
//   once:N       … but not if another front has told it of some before
//   spin:N       … the loop goes on for ever there
//   throw:N      … something is thrown there that nobody expects
// A --prompt with --max-tokens 77: the loop writes through a null pointer at its third token.
// A request whose header alone is refused because its origin's name begins with "crash-in-head":
// the loop writes through a null pointer when it says so.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "program.h"

namespace {

using phalanx::Status;
namespace http = phalanx::http;
namespace serving = phalanx::serving;
namespace wire = phalanx::wire;

constexpr const char* kCrashInHead = "http://crash-in-head";
constexpr std::uint32_t kMaxTokensThatCrash = 77;

struct Fault {
  std::string kind;
  std::uint64_t token = 0;
};

[[noreturn]] void crash() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
  std::abort();
}

[[noreturn]] void spin() {
  for (volatile std::uint64_t turns = 0;;) {
    turns = turns + 1;
  }
}

Fault fault_of(const http::Request& request) {
  Fault fault;
  if (const std::string* const text = request.headers.find("x-crash")) {
    char kind[32] = "";
    unsigned long token = 0;
    if (std::sscanf(text->c_str(), "%31[^:]:%lu", kind, &token) >= 1) {
      fault = {kind, token};
    }
  }
  return fault;
}

// Passes everything on until the Nth token, as the others have told it or not.
class FaultySink final : public serving::RequestSink {
 public:
  FaultySink(std::shared_ptr<serving::RequestSink> inner, Fault fault)
      : inner_(std::move(inner)), fault_(std::move(fault)) {}

  void on_token(const wire::FrontEvent& token) override {
    ++told_;
    if (told_ == fault_.token && !(fault_.kind == "once" && had_history_)) {
      if (fault_.kind == "throw") {
        throw std::length_error("a request asked for it");
      }
      fault_.kind == "spin" ? spin() : crash();
    }
    inner_->on_token(token);
  }
  void on_history(const wire::History& history) override {
    told_ += history.tokens.size();
    had_history_ = true;
    inner_->on_history(history);
  }
  void on_error(const phalanx::Error& error) override { inner_->on_error(error); }

 private:
  std::shared_ptr<serving::RequestSink> inner_;
  Fault fault_;
  std::uint64_t told_ = 0;
  bool had_history_ = false;
};

// Passes everything on, and knows which request is about to be prepared or told tokens.
class FaultyDesk final : public serving::RequestDesk {
 public:
  void pass_on_to(serving::RequestDesk& inner) { inner_ = &inner; }

  // A connection has one request at a time.
  void expect(const http::Request& request) { faults_[request.connection] = fault_of(request); }

  // What the preparation that is about to be handed to another thread does; empty: its work.
  [[nodiscard]] const std::string& preparation() const { return preparation_; }

  void admit(const wire::Admit& wish, Answered answered) override {
    const std::string kind = faults_[wish.key.connection].kind;
    inner_->admit(wish, [this, kind, answered = std::move(answered)](Status place) {
      preparation_ = kind;
      answered(std::move(place));
      preparation_.clear();
    });
  }
  void begin(const wire::RequestKey& key,
             const serving::RequestSummary& summary,
             std::vector<serving::GenerationRequest> prompts,
             std::shared_ptr<serving::RequestSink> sink) override {
    if (key.connection >= wire::kFirstPromptConnection &&
        prompts.at(0).generation.stop.max_tokens == kMaxTokensThatCrash) {
      faults_[key.connection] = {"token", 3};
    }
    if (const Fault& fault = faults_[key.connection]; fault.token > 0) {
      sink = std::make_shared<FaultySink>(std::move(sink), fault);
    }
    inner_->begin(key, summary, std::move(prompts), std::move(sink));
  }
  void stop(const wire::StopChoice& choice) override { inner_->stop(choice); }
  void end(const wire::End& ending) override { inner_->end(ending); }

 private:
  serving::RequestDesk* inner_ = nullptr;
  std::map<std::uint64_t, Fault> faults_;
  std::string preparation_;
};

serving::ApiContext wrap(FaultyDesk& desk, const serving::ApiContext& inner) {
  desk.pass_on_to(inner.desk);
  serving::ApiContext context{
      inner.model,
      desk,
      inner.clock,
      inner.loop,
      [&desk, run_away = inner.run_away](
          bool is_long, std::function<void()> work, std::function<void()> done) {
        if (desk.preparation() == "preparation") {
          work = [] { std::abort(); };
        } else if (desk.preparation() == "stuck") {
          work = [] { spin(); };
        }
        return run_away(is_long, std::move(work), std::move(done));
      }};
  context.long_body_bytes = inner.long_body_bytes;
  context.strict_api = inner.strict_api;
  context.draw_seed = inner.draw_seed;
  context.first_comment = inner.first_comment;
  return context;
}

phalanx::app::FrontSeams seams_of(FaultyDesk& desk) {
  phalanx::app::FrontSeams seams;
  seams.max_work_seconds = 4;
  seams.wrap_server = [](http::ServerOptions options) {
    options.format_error = [inner = options.format_error](int status, const std::string& message) {
      if (message.find(kCrashInHead) != std::string::npos) {
        crash();
      }
      return inner(status, message);
    };
    return options;
  };
  seams.wrap_api = [&desk](const serving::ApiContext& context) { return wrap(desk, context); };
  seams.wrap_prompt_desk = [&desk](serving::RequestDesk& inner) -> serving::RequestDesk& {
    desk.pass_on_to(inner);
    return desk;
  };
  seams.wrap_handler = [&desk](http::Handler inner) -> http::Handler {
    return [&desk, inner = std::move(inner)](http::Request request,
                                             std::shared_ptr<http::Exchange> exchange) {
      desk.expect(request);
      if (fault_of(request).kind == "route") {
        crash();
      }
      inner(std::move(request), std::move(exchange));
    };
  };
  return seams;
}

}  // namespace

int main(int argc, char** argv) {
  FaultyDesk desk;
  return phalanx::app::run_front(argc, argv, seams_of(desk));
}
