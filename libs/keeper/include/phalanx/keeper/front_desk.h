// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/dispatch/admission.h"
#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/keeper/request_metrics.h"
#include "phalanx/wire/front_messages.h"

namespace phalanx::keeper {

// What the desk works with. Borrowed parts outlive it.
struct DeskParts {
  dispatch::Dispatcher& dispatcher;
  dispatch::Admission& admission;
  RequestMetrics& metrics;
  const Clock& clock;
  // Why no request may be generated for now (loading, draining, no replica can serve), or nothing.
  std::function<Status()> accepting;
  std::function<void(std::size_t front, const wire::LeaderToFront& record)> send;
  // flush() is to follow in another turn of the loop.
  std::function<void()> flush_later;
};

// The requests of all fronts: gives places, dispatches what fronts have read, carries tokens back,
// and keeps what is to be logged of a request. What a front has not ended when it is gone is
// cancelled.
//
// Threads: the loop thread.
// Blocks: never.
class FrontDesk {
 public:
  explicit FrontDesk(DeskParts parts);
  FrontDesk(const FrontDesk&) = delete;
  FrontDesk& operator=(const FrontDesk&) = delete;
  ~FrontDesk();

  // Records of a front. Errors: kInvalidArgument for one that no front sends that works; the front
  // is to be ended.
  [[nodiscard]] Status on_admit(std::size_t front, const wire::Admit& wish);
  [[nodiscard]] Status on_begin(std::size_t front, const wire::Begin& begin);
  [[nodiscard]] Status on_prompt_part(std::size_t front, const wire::PromptPart& part);
  [[nodiscard]] Status on_generate(std::size_t front, const wire::Generate& wish);
  void on_stop(std::size_t front, const wire::StopChoice& stop);
  [[nodiscard]] Status on_end(std::size_t front, const wire::End& ending);

  void on_front_gone(std::size_t front);

  // Sends what has happened since the last call.
  void flush();

  [[nodiscard]] std::size_t open() const { return jobs_.size(); }  // places given

 private:
  struct Job;
  class Sink;
  using Name = std::pair<std::size_t, wire::RequestKey>;  // front first: those of one lie together

  [[nodiscard]] Job* find(std::size_t front, const wire::RequestKey& key);
  void dispatch(Job& job, const wire::Generate& wish);
  void refuse(std::size_t front, const wire::Admit& wish, const Error& error);
  void on_token(Job& job, std::uint32_t prompt, const dispatch::TokenEvent& token);
  void fail(Job& job, const Error& error);
  void push(std::size_t front, wire::FrontEvent event);
  void finish(Job& job, const std::string& outcome, const std::string& error);

  DeskParts parts_;
  std::map<Name, std::shared_ptr<Job>> jobs_;
  std::map<std::size_t, std::vector<wire::FrontEvent>> outbox_;
};

}  // namespace phalanx::keeper
