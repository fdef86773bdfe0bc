// SPDX-License-Identifier: Apache-2.0
// A test program that is its own child: started again under the title "child: MODE", it plays the
// mode of that name instead of running tests.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "phalanx/os/child_process.h"
#include "phalanx/os/control_socket.h"

namespace phalanx::test {

// A mode gets the child's end of the control socket; what it returns is the exit status.
using ChildMode = std::function<int(os::ControlSocket&)>;
using ChildModes = std::map<std::string, ChildMode>;

// To be called by main(): plays a mode and exits if this process is a child; otherwise returns.
void play_child(int argc, char** argv, const ChildModes& modes);

[[nodiscard]] os::SpawnPlan child_plan(const std::string& mode);

// One record of text, within ten seconds.
[[nodiscard]] os::ControlMessage receive_record(os::ControlSocket& socket);
void send_record(os::ControlSocket& socket,
                 const std::string& text,
                 const std::vector<int>& fds = {});

}  // namespace phalanx::test
