// SPDX-License-Identifier: Apache-2.0
#include "support/process_tree.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "support/eventually.h"

namespace phalanx::test {

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<ProcessInfo> read_process(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::string stat = read_file(folder + "/stat");
  // "pid (name) state parent …"; the name may hold blanks and parentheses.
  const std::size_t end = stat.rfind(") ");
  if (end == std::string::npos) {
    return std::nullopt;
  }
  ProcessInfo info;
  info.pid = pid;
  std::istringstream(stat.substr(end + 2)) >> info.state >> info.parent;
  info.title = read_file(folder + "/cmdline");
  std::replace(info.title.begin(), info.title.end(), '\0', ' ');
  while (!info.title.empty() && info.title.back() == ' ') {
    info.title.pop_back();
  }
  return info;
}

std::vector<ProcessInfo> all_processes() {
  std::vector<ProcessInfo> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ptr != name.data() + name.size()) {
      continue;
    }
    if (auto info = read_process(pid)) {
      all.push_back(*std::move(info));
    }
  }
  return all;
}

std::vector<ProcessInfo> below(pid_t root, bool dead) {
  std::map<pid_t, std::vector<ProcessInfo>> children;
  for (ProcessInfo& info : all_processes()) {
    children[info.parent].push_back(std::move(info));
  }
  std::vector<ProcessInfo> found;
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    for (const ProcessInfo& info : children[parent]) {
      open.push_back(info.pid);
      if ((info.state == 'Z' || info.state == 'X') == dead) {
        found.push_back(info);
      }
    }
  }
  return found;
}

}  // namespace

std::vector<ProcessInfo> descendants(pid_t root) {
  return below(root, false);
}

std::vector<ProcessInfo> zombies(pid_t root) {
  return below(root, true);
}

bool is_alive(pid_t pid) {
  const auto info = read_process(pid);
  return info && info->state != 'Z' && info->state != 'X';
}

std::vector<pid_t> wait_until_dead(std::vector<pid_t> pids, Duration limit) {
  static_cast<void>(eventually(
      [&] {
        pids.erase(
            std::remove_if(pids.begin(), pids.end(), [](pid_t pid) { return !is_alive(pid); }),
            pids.end());
        return pids.empty();
      },
      limit));
  return pids;
}

std::vector<std::string> abstract_sockets(const std::string& part) {
  std::vector<std::string> names;
  std::istringstream lines(read_file("/proc/net/unix"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(" @");
    if (at != std::string::npos && line.find(part, at) != std::string::npos) {
      names.push_back(line.substr(at + 2));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::string> shared_memory_files() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", error)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

std::size_t descriptor_count(pid_t pid) {
  std::error_code error;
  const std::filesystem::directory_iterator folder("/proc/" + std::to_string(pid) + "/fd", error);
  return error ? 0 : static_cast<std::size_t>(std::distance(begin(folder), end(folder)));
}

}  // namespace phalanx::test
