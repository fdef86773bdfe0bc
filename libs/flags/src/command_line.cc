// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "phalanx/flags/flag_table.h"

#include "sources.h"

namespace phalanx::flags {

namespace {

struct Option {
  std::string name;  // without dashes, dashes within it; empty if the argument is a word
  std::optional<std::string> value;  // behind "="
};

Option option_of(const std::string& argument) {
  if (!argument.starts_with('-')) {
    return {};
  }
  const std::size_t equals = std::min(argument.find('='), argument.size());
  const std::size_t first = std::min(argument.find_first_not_of('-'), equals);
  Option option{argument.substr(first, equals - first), std::nullopt};
  std::replace(option.name.begin(), option.name.end(), '_', '-');
  if (equals < argument.size()) {
    option.value = argument.substr(equals + 1);
  }
  return option;
}

}  // namespace

CommandLineSyntax FlagTable::syntax() const {
  CommandLineSyntax result;
  result.program = program_;
  result.switches = {"help", "version"};
  result.valued = {kDefaultFlag};
  for (const Flag& flag : flags_) {
    for (const std::string& name : flag.names) {
      (flag.is_switch ? result.switches : result.valued).push_back(name);
      if (flag.is_switch) {
        result.switches.push_back("no-" + name);
      }
    }
  }
  return result;
}

Result<std::vector<std::string>> FlagTable::apply_refusals(
    const std::vector<std::string>& arguments) {
  std::vector<std::string> rest;
  const auto end = static_cast<std::size_t>(std::find(arguments.begin(), arguments.end(), "--") -
                                            arguments.begin());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto [name, value] = option_of(arguments[i]);
    const auto refusal = refusals_.find(name);
    if (name.empty() || refusal == refusals_.end() || i >= end) {
      rest.push_back(arguments[i]);
      const Flag* const flag = find(name);
      if (flag != nullptr && !flag->is_switch && !value.has_value() && i + 1 < end &&
          !arguments[i + 1].starts_with("--")) {
        rest.push_back(arguments[++i]);
      }
      continue;
    }
    const bool takes_next = !value.has_value() && !refusal->second.is_switch &&
                            i + 1 < arguments.size() && !arguments[i + 1].starts_with("-");
    PHALANX_RETURN_IF_ERROR(
        apply(refusal->first, takes_next ? arguments[++i] : value.value_or("true"), kCommandLine));
  }
  return rest;
}

std::vector<std::string> FlagTable::with_repeated_flags(
    const std::vector<std::string>& arguments) const {
  std::vector<std::string> result;
  const Flag* taking = nullptr;  // the flag whose words come now
  bool has_value = false;
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  for (const std::string& argument : std::span(arguments.begin(), end)) {
    if (const auto [name, value] = option_of(argument); !name.empty()) {
      const Flag* const flag = find(name);
      taking = flag != nullptr && flag->takes_words ? flag : nullptr;
      has_value = value.has_value();
    } else if (taking != nullptr && std::exchange(has_value, true)) {
      result.push_back("--" + taking->names[0]);
    }
    result.push_back(argument);
  }
  result.insert(result.end(), end, arguments.end());
  return result;
}

Status FlagTable::apply_word(const std::string& word, std::size_t index) {
  if (const auto refused = refused_words_.find(word);
      index == 0 && refused != refused_words_.end()) {
    return invalid_argument("unexpected argument \"" + word + "\": " + refused->second);
  }
  if (!positional_.empty() && !origins_.contains(positional_)) {
    return apply(positional_, word, "command line");
  }
  if (words_ != nullptr && index < words_most_) {
    words_->push_back(word);
    return ok();
  }
  const std::string why =
      positional_.empty() ? "" : ": --" + positional_ + " is given, and other flags take one value";
  return invalid_argument("unexpected argument \"" + word + "\"" + why + "; see " + program_ +
                          " --help");
}

Status FlagTable::note_default(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  std::string name = assignment.substr(0, equals);
  std::replace(name.begin(), name.end(), '_', '-');
  if (equals == std::string::npos || !knows(name) || name == "config") {
    return invalid_argument("--" + std::string(kDefaultFlag) +
                            ": expected NAME=VALUE with the name of a setting, found \"" +
                            assignment + "\"");
  }
  defaults_.emplace_back(std::move(name), assignment.substr(equals + 1));
  return ok();
}

Status FlagTable::apply_command_line(const std::vector<std::string>& arguments, Request* request) {
  PHALANX_TRY(const std::vector<std::string> accepted,
              apply_refusals(with_repeated_flags(arguments)));
  PHALANX_TRY(const std::vector<CommandLineArgument> split, split_command_line(syntax(), accepted));
  std::size_t words = 0;
  for (const CommandLineArgument& argument : split) {
    if (argument.name == "help") {
      *request = Request::kHelp;
    } else if (argument.name == "version") {
      *request = Request::kVersion;
    } else if (argument.name == kDefaultFlag) {
      PHALANX_RETURN_IF_ERROR(note_default(argument.value));
    } else if (!argument.name.empty()) {
      PHALANX_RETURN_IF_ERROR(apply(argument.name, argument.value, "command line"));
    } else {
      PHALANX_RETURN_IF_ERROR(apply_word(argument.value, words++));
    }
  }
  return ok();
}

}  // namespace phalanx::flags
