// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <thread>

#include "phalanx/base/check.h"
#include "phalanx/base/version.h"

namespace phalanx::bench {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

std::string load_average() {
  std::ifstream file("/proc/loadavg");
  std::string one_minute;
  file >> one_minute;
  return one_minute.empty() ? "0" : one_minute;
}

// The program lies in its checkout's build folder; the shell is a child of the program.
std::string checkout_commit() {
  FILE* const git = popen(
      "git -C \"$(dirname \"$(readlink /proc/$PPID/exe)\")\" rev-parse --short HEAD 2>/dev/null",
      "r");
  if (git == nullptr) {
    return "";
  }
  char text[64] = "";
  const bool has_line = std::fgets(text, sizeof(text), git) != nullptr;
  pclose(git);
  const std::string line = has_line ? text : "";
  return line.substr(0, line.find('\n'));
}

// Keeps a text of the kernel inside its quotes.
std::string quoted(std::string text) {
  std::erase_if(text, [](char c) { return c == '"' || c == '\\' || c < ' '; });
  return '"' + text + '"';
}

}  // namespace

std::string machine_json() {
  utsname name{};
  uname(&name);
  return "\"cpu\":" + quoted(cpu_model()) +
         ",\"cores\":" + std::to_string(std::thread::hardware_concurrency()) +
         ",\"os\":" + quoted(name.release) + ",\"load_before\":" + load_average() +
         ",\"version\":" + quoted(std::string(kVersion)) +
         ",\"commit\":" + quoted(checkout_commit());
}

std::string percentiles_json(std::vector<std::uint64_t>& nanoseconds) {
  PHALANX_CHECK(!nanoseconds.empty(), "no samples");
  std::sort(nanoseconds.begin(), nanoseconds.end());
  const auto microseconds = [&](std::size_t index) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.2f", static_cast<double>(nanoseconds[index]) / 1000.0);
    return std::string(text);
  };
  const std::size_t last = nanoseconds.size() - 1;
  return "\"p50_us\":" + microseconds(last / 2) + ",\"p99_us\":" + microseconds(last * 99 / 100) +
         ",\"max_us\":" + microseconds(last) + ",\"count\":" + std::to_string(nanoseconds.size());
}

}  // namespace phalanx::bench
