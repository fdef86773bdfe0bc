// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/prompt_front.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "phalanx/base/clock.h"
#include "phalanx/base/overloaded.h"
#include "phalanx/os/clock_timer.h"
#include "phalanx/wire/error_text.h"
#include "phalanx/wire/limits.h"

namespace phalanx::keeper {

namespace {

constexpr std::size_t kOnlyFront = 0;

}  // namespace

PromptFront::PromptFront(os::EventLoop& loop,
                         FrontStart start,
                         const FrontsParts& parts,
                         Prompts prompts,
                         PromptCalls calls)
    : loop_(loop), prompts_(std::move(prompts)), calls_(std::move(calls)) {
  desk_ = std::make_unique<desk::FrontDesk>(desk_parts(parts));
  host_ = std::make_unique<FrontHost>(loop_, std::move(start), host_calls());
}

PromptFront::~PromptFront() = default;

void PromptFront::start(int tokenizer, int lifeline_pipe) {
  host_->start(tokenizer, lifeline_pipe);
}

void PromptFront::on_tick() {
  host_->on_tick();
}

void PromptFront::run() {
  running_ = true;
  if (host_->ready(kOnlyFront)) {
    send_prompts();
  }
}

FrontCalls PromptFront::host_calls() {
  FrontCalls calls;
  calls.on_ready = [this](std::size_t) {
    away_timer_.reset();
    if (running_) {
      send_prompts();
    }
  };
  calls.on_record = [this](std::size_t, const wire::FrontToLeader& record) {
    return on_record(record);
  };
  calls.on_gone = [this](std::size_t, const FrontEnd& end) {
    on_gone(end);
    return false;
  };
  calls.on_first_start_failed = [this](const Error& cause) { calls_.on_failed(cause); };
  calls.on_program_refused = [](const Error&) {};
  calls.socket_of = [](std::uint64_t) { return -1; };
  return calls;
}

desk::DeskParts PromptFront::desk_parts(const FrontsParts& parts) {
  return {
      parts.dispatcher,
      parts.admission,
      parts.metrics,
      steady_clock(),
      [] { return ok(); },
      [this](std::size_t front, const wire::LeaderToFront& record) { host_->send(front, record); },
      [this](Duration wait) {
        flush_timer_ = loop_.call_after(wait, [this] {
          loop_.name_callback("tokens to the front");
          desk_->flush();
        });
      },
      [this](std::size_t, std::uint64_t connection) {
        return connection >= wire::kFirstPromptConnection &&
               connection - wire::kFirstPromptConnection < prompts_.texts.size();
      },
      [this](std::size_t front) { return host_->behind(front); }};
}

void PromptFront::send_prompts() {
  for (const std::string& text : prompts_.texts) {
    std::size_t at = 0;
    do {
      const std::string part = text.substr(at, wire::kMaxPromptTextBytes);
      at += part.size();
      host_->send(kOnlyFront, wire::PromptText{part, at == text.size()});
    } while (at < text.size());
  }
  host_->send(kOnlyFront, prompts_.how);
}

Status PromptFront::on_record(const wire::FrontToLeader& record) {
  if (auto status = desk_->on_record(kOnlyFront, record)) {
    return *std::move(status);
  }
  return std::visit(Overloaded{[&](const wire::PromptsOutput& output) { return on_output(output); },
                               [&](const wire::PromptsEnd& ending) {
                                 on_end(ending);
                                 return ok();
                               },
                               [&](const wire::FrontTimes&) { return ok(); },
                               [&](const auto&) -> Status {
                                 return invalid_argument("a front without clients speaks of some");
                               }},
                    record);
}

Status PromptFront::on_output(const wire::PromptsOutput& output) {
  if (output_.size() + output.text.size() > wire::kMaxPromptsOutputBytes) {
    return invalid_argument("the prompts of the command line give more output than there may be");
  }
  output_ += output.text;
  return ok();
}

void PromptFront::on_end(const wire::PromptsEnd& ending) {
  if (ending.code == 0) {
    finish(std::move(output_));
  } else {
    finish(wire::error_of(ending.code, ending.message));
  }
}

// What it had put out comes again from the next one.
void PromptFront::on_gone(const FrontEnd& end) {
  desk_->on_front_gone(kOnlyFront);
  output_.clear();
  if (end.is_own && ++failures_ == kMaxFailures) {
    finish(unavailable("the front that works for --prompt has ended " +
                       std::to_string(kMaxFailures) + " times; the log says how"));
  }
  away_timer_ = os::call_after(loop_, running_clock(), kMaxAway, [this] {
    loop_.name_callback("no front for --prompt");
    finish(unavailable("no front for --prompt has been ready for " + seconds_text(kMaxAway) +
                       "; the log says why"));
  });
}

void PromptFront::finish(Result<std::string> output) {
  if (!std::exchange(ended_, true)) {
    calls_.on_end(std::move(output));
  }
}

}  // namespace phalanx::keeper
