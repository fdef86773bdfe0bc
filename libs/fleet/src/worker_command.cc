// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/worker_command.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace phalanx::fleet {

namespace {

// What tools need besides what every child gets.
constexpr std::array<const char*, 3> kToolVariables = {"PATH", "HOME", "TERM"};

std::string variable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> tool_environment() {
  std::vector<std::string> result;
  for (const char* const name : kToolVariables) {
    if (const std::string value = variable(name); !value.empty()) {
      result.push_back(std::string(name) + "=" + value);
    }
  }
  return result;
}

Error bad(const std::string& what) {
  return invalid_argument(what +
                          ": expected SELECTOR=COMMAND with a selector of rank, rank:dp0, "
                          "rank:dp0.tp1, replica, replica:dp0 or loader");
}

// The number behind `prefix`, at the start of `*text`, which it is cut from.
std::optional<std::uint32_t> take_number(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) {
    return std::nullopt;
  }
  std::string_view rest = text->substr(prefix.size());
  std::uint32_t value = 0;
  std::size_t digits = 0;
  while (digits < rest.size() && digits < 4 && rest[digits] >= '0' && rest[digits] <= '9') {
    value = value * 10 + static_cast<std::uint32_t>(rest[digits] - '0');
    ++digits;
  }
  if (digits == 0) {
    return std::nullopt;
  }
  *text = rest.substr(digits);
  return value;
}

Status read_selector(std::string_view selector, WorkerWrapper* wrapper) {
  const std::string shown = "the selector \"" + std::string(selector) + "\"";
  const std::size_t colon = selector.find(':');
  const std::optional<WorkerRole> role = parse_worker_role(selector.substr(0, colon));
  if (!role || *role == WorkerRole::kPlanner) {
    return bad(shown);
  }
  wrapper->role = *role;
  if (colon == std::string_view::npos) {
    return ok();
  }
  std::string_view rest = selector.substr(colon + 1);
  if (*role == WorkerRole::kLoader) {
    return bad(shown);
  }
  if (rest == "*") {
    return ok();
  }
  const std::optional<std::uint32_t> replica = take_number("dp", &rest);
  if (!replica) {
    return bad(shown);
  }
  wrapper->replica = ReplicaId(*replica);
  if (*role == WorkerRole::kRank) {
    if (const std::optional<std::uint32_t> rank = take_number(".tp", &rest)) {
      wrapper->rank = RankId(*rank);
    }
  }
  return rest.empty() ? ok() : Status(bad(shown));
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

Result<std::vector<std::string>> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word += text[++i];
      in_word = true;
    } else if (quote != 0) {
      quote = c == quote ? '\0' : quote;
      if (quote != 0) {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (is_blank(c)) {
      if (std::exchange(in_word, false)) {
        words.push_back(std::exchange(word, {}));
      }
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) {
    return invalid_argument(std::string("the command has a ") + quote + " without its end");
  }
  if (in_word) {
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

std::string_view to_string(WorkerRole role) {
  switch (role) {
    case WorkerRole::kRank:
      return "rank";
    case WorkerRole::kReplica:
      return "replica";
    case WorkerRole::kLoader:
      return "loader";
    case WorkerRole::kPlanner:
      return "planner";
  }
  return "unknown";
}

std::optional<WorkerRole> parse_worker_role(std::string_view text) {
  for (const WorkerRole role :
       {WorkerRole::kRank, WorkerRole::kReplica, WorkerRole::kLoader, WorkerRole::kPlanner}) {
    if (text == to_string(role)) {
      return role;
    }
  }
  return std::nullopt;
}

std::string name_of(ReplicaId replica) {
  return "replica dp" + std::to_string(replica.value());
}

std::string name_of(ReplicaId replica, RankId rank) {
  return "rank dp" + std::to_string(replica.value()) + ".tp" + std::to_string(rank.value());
}

bool WorkerWrapper::selects(ReplicaId of, RankId with) const {
  return role == WorkerRole::kRank && replica.value_or(of) == of && rank.value_or(with) == with;
}

bool WorkerWrapper::selects(ReplicaId which) const {
  return role == WorkerRole::kReplica && replica.value_or(which) == which;
}

Result<WorkerWrapper> parse_worker_wrapper(const std::string& text) {
  const std::size_t equal = text.find('=');
  if (equal == std::string::npos) {
    return bad("\"" + text + "\"");
  }
  WorkerWrapper wrapper;
  wrapper.text = text;
  PHALANX_RETURN_IF_ERROR(read_selector(std::string_view(text).substr(0, equal), &wrapper));
  PHALANX_TRY(wrapper.command, words_of(std::string_view(text).substr(equal + 1)));
  if (wrapper.command.empty() || wrapper.command.front().empty()) {
    return bad("\"" + text + "\" has no command");
  }
  return wrapper;
}

const WorkerWrapper* wrapper_of(const std::vector<WorkerWrapper>& wrappers,
                                ReplicaId replica,
                                RankId rank) {
  const WorkerWrapper* found = nullptr;
  for (const WorkerWrapper& wrapper : wrappers) {
    found = wrapper.selects(replica, rank) ? &wrapper : found;
  }
  return found;
}

const WorkerWrapper* wrapper_of(const std::vector<WorkerWrapper>& wrappers, ReplicaId replica) {
  const WorkerWrapper* found = nullptr;
  for (const WorkerWrapper& wrapper : wrappers) {
    found = wrapper.selects(replica) ? &wrapper : found;
  }
  return found;
}

const WorkerWrapper* loader_wrapper(const std::vector<WorkerWrapper>& wrappers) {
  const WorkerWrapper* found = nullptr;
  for (const WorkerWrapper& wrapper : wrappers) {
    found = wrapper.role == WorkerRole::kLoader ? &wrapper : found;
  }
  return found;
}

os::SpawnPlan worker_plan(WorkerRole role,
                          const WorkerWrapper* wrapper,
                          const std::string& program) {
  os::SpawnPlan plan;
  plan.program = program;
  plan.holds_group_signals = wrapper == nullptr;
  if (wrapper != nullptr) {
    plan.arguments = wrapper->command;
    plan.program = find_program(plan.arguments.front()).value_or(plan.arguments.front());
    plan.leads_group = true;
    plan.wrapped = true;
    plan.environment = tool_environment();
  }
  // What its own children are started as: itself, but under a wrapper "self" is the wrapper.
  if (wrapper == nullptr) {
    plan.arguments.emplace_back(kOwnProgram);
  } else if (program == kOwnProgram) {
    plan.arguments.push_back("/proc/" + std::to_string(::getpid()) + "/exe");
  } else {
    plan.arguments.push_back(program);
  }
  plan.arguments.emplace_back(kWorkerMode);
  plan.arguments.emplace_back(to_string(role));
  return plan;
}

os::SpawnPlan replica_plan(const std::vector<WorkerWrapper>& wrappers,
                           ReplicaId replica,
                           const std::string& program) {
  os::SpawnPlan plan = worker_plan(WorkerRole::kReplica, wrapper_of(wrappers, replica), program);
  bool wraps_ranks = false;
  for (const WorkerWrapper& wrapper : wrappers) {
    if (wrapper.role == WorkerRole::kRank && wrapper.replica.value_or(replica) == replica) {
      plan.arguments.push_back(wrapper.text);
      wraps_ranks = true;
    }
  }
  if (wraps_ranks && plan.environment.empty()) {
    plan.environment = tool_environment();
  }
  return plan;
}

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (os::is_program(name)) {
      return name;
    }
    return not_found(name + ": no such program");
  }
  const std::string path = variable("PATH");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    std::string file = path.substr(begin, end - begin) + "/" + name;
    if (end > begin && os::is_program(file)) {
      return file;
    }
    begin = end + 1;
  }
  return not_found(name + ": no such program in PATH");
}

}  // namespace phalanx::fleet
