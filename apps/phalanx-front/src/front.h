// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/fleet/child_start.h"
#include "phalanx/front/journal_memory.h"
#include "phalanx/front/large_turns.h"
#include "phalanx/front/leader_link.h"
#include "phalanx/front/left_journals.h"
#include "phalanx/front/work_watch.h"
#include "phalanx/http/route_table.h"
#include "phalanx/http/server.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/unique_fd.h"
#include "phalanx/os/work_pool.h"
#include "phalanx/serving/offline_run.h"
#include "phalanx/serving/served_model.h"
#include "phalanx/tokenizer/chat_template.h"
#include "phalanx/tokenizer/tokenizer.h"
#include "phalanx/wire/bootstrap.h"

#include "seams.h"

namespace phalanx::app {

// A front: speaks HTTP with the clients whose connections the leader gives it, makes tokens of
// requests and text of tokens. It owns nothing that is needed after it.
//
// Threads: the loop thread.
class Front {
 public:
  Front(fleet::ChildStart& start, wire::FrontBootstrap bootstrap, const FrontSeams& seams);
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;
  ~Front();

  // Runs until the leader ends it. Errors: it could not start.
  [[nodiscard]] Status run();

 private:
  [[nodiscard]] Status load_model();
  [[nodiscard]] Status open_journal();
  [[nodiscard]] Status open_server();
  [[nodiscard]] http::Handler make_handler();
  [[nodiscard]] front::LinkCalls link_calls();
  [[nodiscard]] bool run_away(bool is_long, std::function<void()> work, std::function<void()> done);
  void connect(const wire::Connect& connection, os::UniqueFd socket, os::UniqueFd left);
  void go_on(const wire::Connect& connection, os::UniqueFd socket, int left);
  void go_on_with(front::LargeConnection left);
  void serve(const wire::Connect& connection,
             os::UniqueFd socket,
             std::optional<http::Resumption> resumption);
  void give_up(const wire::Connect& connection, const os::UniqueFd& socket, const Error& error);
  [[nodiscard]] std::unique_ptr<http::Journal> journal_of(const wire::Connect& connection,
                                                          const http::ConnectionInfo& info);
  void mark(std::size_t thread, std::uint64_t connection);
  void drain(bool answers_end);
  void take_prompt(const wire::PromptText& part);
  void run_prompts(const wire::RunPrompts& how);
  void run_loop();
  void tick_each_second();
  void tell_times();
  void give_back_journals();
  void give_back_heap();
  void end_if_stuck();

  fleet::ChildStart& start_;
  wire::FrontBootstrap bootstrap_;
  FrontSeams seams_;
  os::EventLoop loop_;
  front::WorkWatch watch_;  // of the pools
  os::WorkPool pool_;       // short bodies
  os::WorkPool long_pool_;  // long ones, and long answers
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<tokenizer::ChatTemplate> chat_template_;  // null if the model has none
  std::unique_ptr<tokenizer::ChatTemplate> tool_template_;  // null if tools have none of their own
  serving::ServedModel model_;
  std::unique_ptr<front::JournalMemory> journal_;  // null: nothing outlives this process
  std::uint64_t working_for_ = 0;                  // the connection that the loop works for
  std::unique_ptr<front::LeaderLink> link_;
  front::LeftJournals left_;
  front::LargeTurns large_;
  serving::OfflineOptions prompts_;  // of the command line, as far as they have come …
  bool prompt_is_open_ = false;      // … of the last of them a part is still to come
  std::unique_ptr<serving::OfflineRun> offline_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<os::EventLoop::Handle> times_timer_;
  std::unique_ptr<os::EventLoop::Handle> give_back_timer_;  // while there is something to
  bool heap_used_ = false;                                  // by long work, since it was given back
  std::uint64_t lost_told_ = 0;
  std::uint64_t waits_told_ = 0;
  std::uint64_t slow_told_ = 0;
};

}  // namespace phalanx::app
