// SPDX-License-Identifier: Apache-2.0
#include "show_status.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include "phalanx/base/printable.h"
#include "phalanx/documents/status_document.h"

#include "server_call.h"

namespace phalanx::app {

namespace {

// "17:03:59"
std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 16> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%H:%M:%S", &parts)};
}

// For now: one that hears too many others refuses.
bool is_away(const Error& error) {
  return error.code() == Code::kResourceExhausted || error.code() == Code::kNotFound ||
         error.code() == Code::kUnavailable || error.code() == Code::kDeadlineExceeded;
}

// One picture after the other: on a terminal in its place, elsewhere with its time.
class Watch {
 public:
  explicit Watch(bool json) : json_(json), redraws_(!json && ::isatty(STDOUT_FILENO) != 0) {}

  void show(const wire::ServerStatus& status) {
    away_since_.reset();
    if (json_) {
      std::cout << documents::status_json_in_ascii(status) << "\n" << std::flush;
    } else {
      draw(documents::status_table(status));
    }
  }

  // Where every line is a document, what is none goes to standard error, once.
  void show_away(const Error& error) {
    const bool is_news = !away_since_;
    if (is_news) {
      away_since_ = time_of_day();
    }
    const std::string line =
        "no server answers (since " + *away_since_ + "): " + printable(error.message()) + "\n";
    if (!json_) {
      draw(line);
    } else if (is_news) {
      std::cerr << "phalanxctl: " << line;
    }
  }

 private:
  void draw(const std::string& picture) const {
    std::cout << (redraws_ ? "\x1b[H\x1b[2J" : time_of_day() + "  ") << picture << std::flush;
  }

  bool json_;
  bool redraws_;
  std::optional<std::string> away_since_;
};

Status watch_status(const CtlOptions& options) {
  Watch watch(options.json);
  do {
    const auto status = ask_status(options, from_seconds(options.timeout_s));
    if (status) {
      watch.show(*status);
    } else if (is_away(status.error())) {
      watch.show_away(status.error());
    } else {
      return status.error();
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
  } while (std::cout);
  return ok();
}

}  // namespace

Status show_status(const CtlOptions& options) {
  if (options.watch) {
    return watch_status(options);
  }
  PHALANX_TRY(const wire::ServerStatus status,
              ask_status(options, from_seconds(options.timeout_s)));
  std::cout << (options.json ? documents::status_json_in_ascii(status) + "\n"
                             : documents::status_table(status));
  return ok();
}

}  // namespace phalanx::app
