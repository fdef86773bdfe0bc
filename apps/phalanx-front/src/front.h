// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/fleet/child_start.h"
#include "phalanx/front/leader_link.h"
#include "phalanx/http/route_table.h"
#include "phalanx/http/server.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/work_pool.h"
#include "phalanx/serving/served_model.h"
#include "phalanx/tokenizer/chat_template.h"
#include "phalanx/tokenizer/tokenizer.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::app {

// A front: speaks HTTP with the clients whose connections the leader gives it, makes tokens of
// requests and text of tokens. It owns nothing that is needed after it.
//
// Threads: the loop thread.
class Front {
 public:
  Front(fleet::ChildStart& start, wire::FrontBootstrap bootstrap);
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;
  ~Front();

  // Runs until the leader ends it. Errors: it could not start.
  [[nodiscard]] Status run();

 private:
  [[nodiscard]] Status load_model();
  [[nodiscard]] Status open_server();
  [[nodiscard]] http::RouteTable make_routes();
  [[nodiscard]] front::LinkCalls link_calls();
  void drain(bool answers_end);
  void tell_times();

  fleet::ChildStart& start_;
  wire::FrontBootstrap bootstrap_;
  os::EventLoop loop_;
  os::WorkPool pool_;       // short bodies
  os::WorkPool long_pool_;  // long ones, and long answers
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<tokenizer::ChatTemplate> chat_template_;  // null if the model has none
  std::unique_ptr<tokenizer::ChatTemplate> tool_template_;  // null if tools have none of their own
  serving::ServedModel model_;
  std::unique_ptr<front::LeaderLink> link_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<os::EventLoop::Handle> times_timer_;
  Duration longest_told_{};
};

}  // namespace phalanx::app
