// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "phalanx/admin/admin_server.h"
#include "phalanx/desk/request_metrics.h"
#include "phalanx/dispatch/admission.h"
#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/dispatch/router.h"
#include "phalanx/fleet/leader_phases.h"
#include "phalanx/fleet/replica_host.h"
#include "phalanx/fleet/weight_loader.h"
#include "phalanx/ipc/zmq_context.h"
#include "phalanx/keeper/fronts.h"
#include "phalanx/keeper/prompt_front.h"
#include "phalanx/obs/metrics.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/held_signals.h"
#include "phalanx/os/memfd.h"
#include "phalanx/os/service_notice.h"
#include "phalanx/os/standard_files.h"
#include "phalanx/settings/leader_plan.h"
#include "phalanx/settings/options.h"
#include "phalanx/wire/admin_messages.h"

namespace phalanx::app {

// An exit status: this, and the number of the signal by which the server was ended before it had
// done what it was started for.
inline constexpr int kSignalExitBase = 128;

// Of a program that a signal ends in its time: who waits for answers to prompts of the command line
// must not take none for them.
[[nodiscard]] inline int end_status(const settings::Options& options, int signal) {
  return options.prompts.empty() ? 0 : kSignalExitBase + signal;
}

// What the leader begins with.
struct LeaderStart {
  settings::LeaderPlan plan;
  os::Memfd tokenizer;  // for fronts
  std::string workers;  // the program that workers are; it outlives the leader
};

// The leader: its parts in the order in which they need each other, and what they do in the phases
// of fleet/leader_phases.h.
//
// Threads: the loop thread.
class Leader {
 public:
  Leader(const settings::Options& options, LeaderStart start, ipc::ZmqContext context);
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;
  ~Leader();

  // Runs until the server has ended; the exit status, or the cause if it could not start or go on.
  [[nodiscard]] Result<int> run();

 private:
  [[nodiscard]] Status open_doors();
  void load_weights();
  void on_weights(Result<os::Memfd> arena);
  void make_dispatch();
  [[nodiscard]] fleet::ReplicaEvents replica_events();
  [[nodiscard]] keeper::FrontsCalls fronts_calls();
  [[nodiscard]] keeper::PromptCalls prompt_calls();
  void on_fronts_failed(const Error& cause);
  [[nodiscard]] keeper::Answer answer(wire::QueryKind kind);
  [[nodiscard]] Status watch_signals();
  void on_signal(int signal);

  [[nodiscard]] Status accepting() const;
  [[nodiscard]] bool serves() const;
  void perform(fleet::LeaderAction action, const Error* cause);
  void on_replica_failed(const Error& cause);
  void announce_once();
  void end_prompts(Result<std::string> output);
  void drain();
  void finish();
  void tell_service(const std::string& news);
  void note_service(const Status& told);
  void call_after(Duration delay, os::EventLoop::Callback callback);  // by running_clock()
  void answer_admin(const wire::AdminRequest& request, const admin::AdminServer::Reply& reply);
  [[nodiscard]] Status reload(const wire::AdminRequest& request);
  [[nodiscard]] Status operate(const wire::AdminRequest& request);
  [[nodiscard]] wire::AdminAnswer status() const;
  [[nodiscard]] std::string phase_name() const;
  [[nodiscard]] bool offline() const { return !options_.prompts.empty(); }
  [[nodiscard]] fleet::ReplicaSlots& slots() const { return replicas_->slots(); }

  const settings::Options& options_;
  settings::LeaderPlan plan_;
  os::Memfd tokenizer_;
  std::string workers_;
  ipc::ZmqContext context_;
  os::EventLoop loop_;
  os::StandardOutput output_{loop_};
  os::ServiceNotice service_ = os::ServiceNotice::from_environment();
  bool service_is_deaf_ = false;  // which has been logged
  dispatch::Router router_;
  dispatch::Admission admission_;
  obs::MetricRegistry registry_;
  desk::RequestMetrics metrics_;
  os::Pipe lifeline_;  // its end of file tells every descendant that the leader is gone
  os::Memfd arena_;
  std::unique_ptr<fleet::WeightLoader> loader_;
  std::unique_ptr<fleet::ReplicaHost> replicas_;
  std::unique_ptr<dispatch::Dispatcher> dispatcher_;
  // One of them: the other is null.
  std::unique_ptr<keeper::Fronts> fronts_;
  std::unique_ptr<keeper::PromptFront> prompt_front_;
  std::unique_ptr<admin::AdminServer> admin_;
  os::HeldSignals signals_;
  std::vector<std::unique_ptr<os::EventLoop::Handle>> handles_;
  fleet::LeaderLife life_{
      [this](fleet::LeaderAction action, const Error* cause) { perform(action, cause); }};
  fleet::EndSignals end_signals_;
  int last_signal_ = 0;
  bool announced_ = false;
  bool has_last_words_ = false;  // open requests have ended with the cause
  bool finishing_ = false;
  Result<int> result_ = 0;
  int printed_tenths_ = -1;
};

}  // namespace phalanx::app
