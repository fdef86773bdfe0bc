// SPDX-License-Identifier: Apache-2.0
#include "test_child.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "phalanx/os/child_side.h"

namespace phalanx::test {

namespace {

constexpr std::string_view kTitle = "child: ";

}  // namespace

void play_child(int argc, char** argv, const ChildModes& modes) {
  if (argc != 1 || !std::string_view(argv[0]).starts_with(kTitle)) {
    return;
  }
  // A sanitizer would hold up the death by this signal with a report.
  std::signal(SIGSEGV, SIG_DFL);
  const auto mode = modes.find(std::string(argv[0]).substr(kTitle.size()));
  auto socket = os::inherited_control_socket();
  if (mode == modes.end() || !socket) {
    std::exit(99);
  }
  std::exit(mode->second(*socket));
}

os::SpawnPlan child_plan(const std::string& mode) {
  os::SpawnPlan plan;
  plan.arguments = {std::string(kTitle) + mode};
  return plan;
}

os::ControlMessage receive_record(os::ControlSocket& socket) {
  auto message = socket.receive_until(steady_clock().now() + std::chrono::seconds(10));
  if (!message) {
    throw std::runtime_error(message.error().to_string());
  }
  return *std::move(message);
}

void send_record(os::ControlSocket& socket, const std::string& text, const std::vector<int>& fds) {
  const auto sent = socket.send(text, fds);
  if (!sent || *sent != os::ControlSent::kQueued) {
    throw std::runtime_error("a record was not sent: " + text);
  }
}

}  // namespace phalanx::test
