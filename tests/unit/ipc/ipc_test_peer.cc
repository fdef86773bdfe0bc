// SPDX-License-Identifier: Apache-2.0
// A child for ipc_process_test: reads an endpoint from standard input, connects, sends its pid,
// then answers each frame with "<pid> got <frame>" until "stop".
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>

#include "phalanx/ipc/blocking_channel.h"

int main() {
  using phalanx::ipc::BlockingChannel;
  std::string endpoint;
  std::getline(std::cin, endpoint);
  auto context = phalanx::ipc::ZmqContext::create();
  if (!context) {
    return 70;
  }
  auto channel = BlockingChannel::connect(*context, endpoint, {});
  if (!channel) {
    return 64;
  }
  const std::string pid = std::to_string(::getpid());
  if (!channel->send(pid, std::chrono::seconds(2))) {
    return 75;
  }
  while (true) {
    const auto frame = channel->receive(std::chrono::seconds(10));
    if (!frame || !*frame) {
      return 69;
    }
    if (**frame == "stop") {
      return 0;
    }
    if (!channel->send(pid + " got " + **frame, std::chrono::seconds(2))) {
      return 75;
    }
  }
}
