// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <unistd.h>

#include <cstdio>
#include <string>

namespace phalanx::load {
namespace {

constexpr std::size_t kBarWidth = 30;
constexpr auto kPeriod = std::chrono::milliseconds(200);

}  // namespace

Progress::Progress(os::EventLoop& loop,
                   const loadgen::Driver& driver,
                   std::size_t total,
                   bool wanted)
    : driver_(driver), total_(total), started_(steady_clock().now()) {
  if (wanted && ::isatty(STDERR_FILENO) != 0) {
    timer_ = loop.call_every(kPeriod, [this] { draw(); });
  }
}

Progress::~Progress() {
  if (timer_) {
    std::fputs("\r\x1b[K", stderr);
  }
}

void Progress::draw() const {
  const std::size_t done = driver_.finished();
  const std::size_t filled = total_ == 0 ? 0 : kBarWidth * done / total_;
  const std::string bar = std::string(filled, '#') + std::string(kBarWidth - filled, '.');
  const double seconds = to_seconds(steady_clock().now() - started_);
  std::fprintf(stderr,
               "\r\x1b[K[%s] %zu/%zu  under way %zu  failed %zu  %.1f req/s  %.0f s",
               bar.c_str(),
               done,
               total_,
               driver_.under_way(),
               driver_.failed(),
               static_cast<double>(done) / seconds,
               seconds);
}

}  // namespace phalanx::load
