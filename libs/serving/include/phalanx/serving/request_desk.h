// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/serving/text_choice.h"
#include "phalanx/wire/error_text.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::serving {

// Hears what happens to one request. Called on the loop thread; nothing is called any more once its
// place has been given back.
class RequestSink {
 public:
  RequestSink() = default;
  RequestSink(const RequestSink&) = delete;
  RequestSink& operator=(const RequestSink&) = delete;
  virtual ~RequestSink() = default;

  // One token; exactly one call per token, of each choice in the order of positions. Tokens may
  // come of a choice that has been stopped.
  virtual void on_token(const wire::FrontEvent& token) = 0;
  // Tokens that another process has been told, and whose text it has written; those of on_token()
  // come behind them.
  virtual void on_history(const wire::History& history) = 0;
  virtual void on_error(const Error& error) = 0;  // and nothing after it
};

// What a request has turned out to be when it was read.
struct RequestSummary {
  std::string id;  // X-Request-Id
  std::uint64_t booked_tokens = 0;
  bool stream = false;
  Duration tokenize_time{};  // parsing, template and tokenization
  std::uint64_t told = 0;    // events whose text another process has written
};

// The requests as the API sees them, whoever owns them: asks for places, starts generations, hears
// their tokens. Every call that needs an answer gets it later, from the loop.
//
// Threads: the loop thread.
// Blocks: never.
class RequestDesk {
 public:
  using Answered = std::function<void(Status)>;

  RequestDesk() = default;
  RequestDesk(const RequestDesk&) = delete;
  RequestDesk& operator=(const RequestDesk&) = delete;
  virtual ~RequestDesk() = default;

  // Asks for a place, before the body is parsed. `answered` hears once; never from within the call.
  // Errors, to `answered`: kUnavailable while nothing is served, kResourceExhausted when too much
  // is queued.
  virtual void admit(const wire::Admit& wish, Answered answered) = 0;

  // Generates for the prompts of an admitted request. What is refused even now is told to the sink.
  virtual void begin(const wire::RequestKey& key,
                     const RequestSummary& summary,
                     std::vector<GenerationRequest> prompts,
                     std::shared_ptr<RequestSink> sink) = 0;

  // The text of a choice ends with its token at `position`.
  virtual void stop(const wire::StopChoice& choice) = 0;

  // Gives the place back and ends what still runs.
  virtual void end(const wire::End& ending) = 0;
};

// An admitted request's place. Given back when it is destroyed, as refused, unless end() has been
// called.
//
// Ownership: the desk must outlive it.
class Place {
 public:
  Place() = default;
  Place(RequestDesk& desk, const wire::RequestKey& key) : desk_(&desk), key_(key) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  Place(Place&& other) noexcept : desk_(std::exchange(other.desk_, nullptr)), key_(other.key_) {}
  Place& operator=(Place&& other) noexcept {
    std::swap(desk_, other.desk_);
    std::swap(key_, other.key_);
    return *this;
  }
  ~Place() { refuse(500); }

  [[nodiscard]] const wire::RequestKey& key() const { return key_; }

  void end(const std::string& outcome, const std::string& error) {
    give_back({key_, outcome, wire::error_text(error), 200});
  }
  // The request was answered `status` before it ran.
  void refuse(int status) {
    give_back({key_, wire::outcome::kRefused, "", static_cast<std::uint32_t>(status)});
  }

 private:
  void give_back(const wire::End& ending) {
    if (RequestDesk* const desk = std::exchange(desk_, nullptr)) {
      desk->end(ending);
    }
  }

  RequestDesk* desk_ = nullptr;
  wire::RequestKey key_;
};

}  // namespace phalanx::serving
