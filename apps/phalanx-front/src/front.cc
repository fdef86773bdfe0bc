// SPDX-License-Identifier: Apache-2.0
#include "front.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "phalanx/base/exception_error.h"
#include "phalanx/base/split_list.h"
#include "phalanx/front/operator_routes.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/crash_record.h"
#include "phalanx/os/machine.h"
#include "phalanx/os/memfd.h"
#include "phalanx/serving/api_routes.h"
#include "phalanx/tokenizer/tokenizer_source.h"
#include "phalanx/wire/error_text.h"
#include "phalanx/wire/limits.h"

namespace phalanx::app {

namespace {

// Of which the journal has marks.
constexpr std::size_t kLoopThread = 0;
constexpr std::size_t kPoolThread = 1;
constexpr std::size_t kLongPoolThread = 2;

constexpr Duration kSecond = std::chrono::seconds(1);  // from tick to tick
constexpr std::uint32_t kMaxWorkSeconds = 60;

// Of a request that another front has left: what takes longer than a millisecond to copy.
constexpr std::uint64_t kLargeBytes = std::uint64_t{256} << 10;

Result<std::unique_ptr<tokenizer::ChatTemplate>> compile(const tokenizer::Tokenizer& tokenizer,
                                                         const std::string& source) {
  if (source.empty()) {
    return std::unique_ptr<tokenizer::ChatTemplate>();
  }
  PHALANX_TRY(tokenizer::ChatTemplate compiled,
              tokenizer::compile_chat_template(tokenizer, source));
  return std::make_unique<tokenizer::ChatTemplate>(std::move(compiled));
}

// What the leader admits bounds the queues. All of it comes at once to a front that takes another
// one's connections over, and none of that may be refused: it was admitted, and may be half
// answered.
std::size_t queue_limit(const wire::FrontBootstrap& bootstrap) {
  return std::size_t{bootstrap.max_queued_reqs} + bootstrap.journal_places;
}

// The slowest work is that for a body as long as bodies may be, on a processor that has much else
// to do; templates have limits of their own.
std::uint32_t max_work_seconds(const wire::FrontBootstrap& bootstrap) {
  constexpr std::uint64_t kBytesInASecond = std::uint64_t{1} << 20U;
  return kMaxWorkSeconds + static_cast<std::uint32_t>(bootstrap.max_body_bytes / kBytesInASecond);
}

// A name in each line, of which answers have the first.
void set_names(const std::string& lines, serving::ServedModel* model) {
  std::istringstream text(lines);
  std::getline(text, model->name);
  for (std::string alias; std::getline(text, alias);) {
    model->aliases.push_back(alias);
  }
}

}  // namespace

Front::Front(fleet::ChildStart& start, wire::FrontBootstrap bootstrap, const FrontSeams& seams)
    : start_(start),
      bootstrap_(std::move(bootstrap)),
      seams_(seams),
      watch_(kSecond, seams.max_work_seconds.value_or(max_work_seconds(bootstrap_))),
      pool_(loop_, {.threads = 1, .queue_limit = queue_limit(bootstrap_)}),
      long_pool_(loop_, {.threads = 1, .queue_limit = queue_limit(bootstrap_)}),
      large_(loop_, [this](front::LargeConnection large) {
        mark(kLoopThread, large.connection.connection);
        go_on_with(std::move(large));
        mark(kLoopThread, 0);
      }) {}

Front::~Front() = default;

Status Front::run() {
  PHALANX_RETURN_IF_ERROR(load_model());
  PHALANX_RETURN_IF_ERROR(open_journal());
  link_ = std::make_unique<front::LeaderLink>(loop_, start_.control(), link_calls());
  PHALANX_RETURN_IF_ERROR(link_->start());
  PHALANX_RETURN_IF_ERROR(open_server());
  tick_each_second();
  start_.tell(wire::ChildReady{});
  loop_.reset_callback_times();
  run_loop();
  return ok();
}

// What is thrown there ends the process at once, as a death: to destroy the server would end its
// connections, which another front can go on with.
void Front::run_loop() {
  try {
    loop_.run();
  } catch (const std::exception& exception) {
    ::_exit(fleet::fail_child(&start_, error_of(exception)));
  }
}

Status Front::load_model() {
  PHALANX_TRY(os::UniqueFd fd, start_.take_fd(0));
  PHALANX_TRY(
      const os::Memfd memory,
      os::Memfd::adopt(std::move(fd), static_cast<std::size_t>(bootstrap_.tokenizer_bytes)));
  PHALANX_TRY(const os::Mapping mapping, memory.map(os::Access::kReadOnly));
  const std::span<const std::byte> bytes = mapping.bytes();
  PHALANX_TRY(const tokenizer::TokenizerSource source,
              tokenizer::tokenizer_source_from(
                  {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  PHALANX_TRY(tokenizer_, tokenizer::load_tokenizer(source));
  PHALANX_TRY(chat_template_, compile(*tokenizer_, tokenizer_->chat_template()));
  PHALANX_TRY(tool_template_, compile(*tokenizer_, tokenizer_->tool_use_template()));
  set_names(bootstrap_.model_name, &model_);
  model_.root = bootstrap_.model_root;
  model_.created = bootstrap_.created;
  model_.max_model_len = bootstrap_.max_model_len;
  model_.vocab = bootstrap_.vocab;
  model_.tokenizer = tokenizer_.get();
  model_.chat_template = chat_template_.get();
  model_.tool_template = tool_template_.get();
  model_.default_sampling = bootstrap_.default_sampling;
  model_.end_tokens = bootstrap_.end_tokens;
  return ok();
}

Status Front::open_journal() {
  if (bootstrap_.journal_bytes == 0) {
    return ok();
  }
  PHALANX_TRY(os::UniqueFd fd, start_.take_fd(1));
  PHALANX_TRY(journal_,
              front::JournalMemory::adopt(std::move(fd),
                                          static_cast<std::size_t>(bootstrap_.journal_bytes),
                                          bootstrap_.journal_places));
  return ok();
}

Status Front::open_server() {
  http::ServerOptions options;
  options.limits.body_bytes_max = static_cast<std::size_t>(bootstrap_.max_body_bytes);
  options.on_loopback = bootstrap_.on_loopback;
  options.allowed_hosts = split_list(bootstrap_.allowed_hosts);
  options.allowed_origins = split_list(bootstrap_.allowed_origins);
  options.stream_pending_bytes_max = static_cast<std::size_t>(bootstrap_.stream_buffer_bytes);
  options.memory_bytes_max = static_cast<std::size_t>(bootstrap_.client_memory_bytes);
  options.comment_interval = std::chrono::milliseconds(bootstrap_.comment_ms);
  options.format_error = serving::error_response;
  options.format_stream_failure = front::stream_failure;
  options.mark = [this](std::uint64_t id) { mark(kLoopThread, id); };
  options.on_closed = [this](std::uint64_t id) { link_->send(wire::Disconnected{id}); };
  options.on_released = [this](std::uint64_t id, std::uint64_t received, std::uint64_t sent) {
    link_->send(wire::Released{id, received, sent});
  };
  options.on_rest = [this](std::uint64_t id, std::uint64_t received, std::uint64_t sent) {
    link_->send(wire::AtRest{id, received, sent});
  };
  if (seams_.wrap_server) {
    options = seams_.wrap_server(std::move(options));
  }
  PHALANX_TRY(server_, http::Server::create(loop_, std::move(options), make_handler()));
  return ok();
}

http::Handler Front::make_handler() {
  http::RouteTable routes(serving::error_response);
  serving::ApiContext context{
      model_,
      *link_,
      steady_clock(),
      loop_,
      [this](bool is_long, std::function<void()> work, std::function<void()> done) {
        return run_away(is_long, std::move(work), std::move(done));
      }};
  context.strict_api = bootstrap_.strict_api;
  context.mark = [this](std::uint64_t id) { mark(kLoopThread, id); };
  context.draw_seed = os::random_u64;
  context.first_comment = std::chrono::milliseconds(bootstrap_.comment_ms);
  serving::add_api_routes(&routes, seams_.wrap_api ? seams_.wrap_api(context) : context);
  front::add_operator_routes(&routes, *link_, [this] { tell_times(); });
  http::Handler handler = std::move(routes);
  return seams_.wrap_handler ? seams_.wrap_handler(std::move(handler)) : handler;
}

front::LinkCalls Front::link_calls() {
  front::LinkCalls calls;
  calls.on_connect = [this](
                         const wire::Connect& connection, os::UniqueFd socket, os::UniqueFd left) {
    connect(connection, std::move(socket), std::move(left));
  };
  calls.mark = [this](std::uint64_t id) { mark(kLoopThread, id); };
  calls.on_drain = [this](bool answers_end) { drain(answers_end); };
  calls.on_retire = [this] { server_->release_all(); };
  calls.on_prompt = [this](const wire::PromptText& part) { take_prompt(part); };
  calls.on_run_prompts = [this](const wire::RunPrompts& how) { run_prompts(how); };
  calls.on_broken = [](const Error& error) {
    // At once, as a death: nothing here may still speak with a client.
    obs::log_error("link_broken", {{"error", error.to_string()}});
    ::_exit(error_traits(error.code()).exit_status);
  };
  return calls;
}

void Front::connect(const wire::Connect& connection, os::UniqueFd socket, os::UniqueFd left) {
  if (connection.resumes) {
    go_on(connection, std::move(socket), left.get());
  } else {
    serve(connection, std::move(socket), {});
  }
}

// What takes longer waits for its turn, without the descriptor: there is room for one of each
// connection.
void Front::go_on(const wire::Connect& connection, os::UniqueFd socket, int left) {
  auto journal = left_.of(left);
  if (!journal) {
    give_up(connection, socket, journal.error());
    return;
  }
  const auto extent = (*journal)->extent(
      connection.left_at, connection.connection, connection.received_bytes, connection.sent_bytes);
  front::LargeConnection all{connection, std::move(socket), *std::move(journal)};
  if (extent && extent->bytes > kLargeBytes) {
    large_.add(std::move(all), extent->is_awaited);
  } else {
    go_on_with(std::move(all));
  }
}

void Front::go_on_with(front::LargeConnection left) {
  const wire::Connect& connection = left.connection;
  auto resumption = left.left->read(
      connection.left_at, connection.connection, connection.received_bytes, connection.sent_bytes);
  if (!resumption) {
    give_up(connection, left.socket, resumption.error());
    return;
  }
  serve(connection, std::move(left.socket), *std::move(resumption));
}

void Front::give_up(const wire::Connect& connection,
                    const os::UniqueFd& socket,
                    const Error& error) {
  obs::log_error("connection_not_resumed",
                 {{"connection", connection.connection}, {"error", error.message()}});
  ::shutdown(socket.get(), SHUT_RDWR);
  link_->send(wire::Disconnected{connection.connection, true});
}

void Front::serve(const wire::Connect& connection,
                  os::UniqueFd socket,
                  std::optional<http::Resumption> resumption) {
  http::ConnectionInfo info;
  info.id = connection.connection;
  info.peer = connection.peer;
  info.refusal = connection.refusal;
  info.goes_on = connection.goes_on;
  info.waited = std::chrono::milliseconds(connection.waited_ms);
  info.received = connection.received_bytes;
  info.sent = connection.sent_bytes;
  info.failure = connection.failure;
  info.resumption = std::move(resumption);
  info.journal = journal_of(connection, info);
  server_->adopt(std::move(socket), std::move(info));
}

std::unique_ptr<http::Journal> Front::journal_of(const wire::Connect& connection,
                                                 const http::ConnectionInfo& info) {
  if (!journal_) {
    return nullptr;
  }
  return info.resumption
             ? journal_->go_on(connection.place,
                               connection.connection,
                               *info.resumption,
                               info.received,
                               info.sent)
             : journal_->open(connection.place, connection.connection, info.received, info.sent);
}

// For whom a thread works is what it is suspected of if it crashes; and of all threads it stands in
// the journal, as a front may end without a word.
bool Front::run_away(bool is_long, std::function<void()> work, std::function<void()> done) {
  os::WorkPool& pool = is_long ? long_pool_ : pool_;
  const std::size_t thread = is_long ? kLongPoolThread : kPoolThread;
  const std::uint64_t connection = working_for_;
  heap_used_ |= is_long;
  return pool
      .submit(
          [this, thread, connection, work = std::move(work)] {
            mark(thread, connection);
            watch_.begin(thread, connection);
            work();
            watch_.end(thread);
            mark(thread, 0);
          },
          [this, connection, done = std::move(done)] {
            mark(kLoopThread, connection);
            done();
            mark(kLoopThread, 0);
          })
      .has_value();
}

void Front::mark(std::size_t thread, std::uint64_t connection) {
  os::work_for(connection);
  if (thread == kLoopThread) {
    working_for_ = connection;
  }
  if (journal_) {
    journal_->mark(thread, connection);
  }
}

void Front::drain(bool answers_end) {
  if (answers_end) {
    large_.hurry();
    server_->end_answers();
    return;
  }
  server_->close_idle();
}

void Front::take_prompt(const wire::PromptText& part) {
  if (!std::exchange(prompt_is_open_, !part.last)) {
    prompts_.prompts.emplace_back();
  }
  prompts_.prompts.back() += part.text;
}

void Front::run_prompts(const wire::RunPrompts& how) {
  prompts_.how = how;
  serving::OfflineCalls calls;
  calls.on_output = [this](std::string output) { link_->put_out(std::move(output)); };
  calls.on_end = [this](const Status& status) {
    link_->send(status ? wire::PromptsEnd{}
                       : wire::PromptsEnd{wire::error_code(status.error()),
                                          wire::error_text(status.error().message())});
  };
  serving::RequestDesk& desk = seams_.wrap_prompt_desk ? seams_.wrap_prompt_desk(*link_) : *link_;
  offline_ = std::make_unique<serving::OfflineRun>(
      std::move(prompts_), model_, desk, steady_clock(), std::move(calls));
  offline_->start();
}

}  // namespace phalanx::app
