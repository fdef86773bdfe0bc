// SPDX-License-Identifier: Apache-2.0
#include "phalanx/flags/flag_table.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/base/split_list.h"

#include "sources.h"
#include "suggestion.h"

namespace phalanx::flags {

namespace {

std::string short_number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (!text.empty() && text.back() == '.') {
    text.pop_back();
  }
  return text;
}

Result<bool> parse_switch(const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  for (const char* yes : {"true", "1", "on", "yes"}) {
    if (lower == yes) {
      return true;
    }
  }
  for (const char* no : {"false", "0", "off", "no"}) {
    if (lower == no) {
      return false;
    }
  }
  return invalid_argument("expected true or false, found \"" + text + "\"");
}

std::string join(const std::vector<std::string>& words, const std::string& separator) {
  std::string result;
  for (const std::string& word : words) {
    result += (result.empty() ? "" : separator) + word;
  }
  return result;
}

}  // namespace

FlagTable::FlagTable(std::string program, std::string summary, std::string env_prefix)
    : program_(std::move(program)),
      summary_(std::move(summary)),
      env_prefix_(std::move(env_prefix)) {
  add_text("config",
           &config_path_,
           "FILE",
           "Read settings from a TOML file; keys are the names of the flags");
}

void FlagTable::group(std::string title) {
  group_ = std::move(title);
}

void FlagTable::section(std::string title, std::string text) {
  sections_.emplace_back(std::move(title), std::move(text));
}

void FlagTable::add(Flag flag) {
  flag.group = group_;
  flags_.push_back(std::move(flag));
}

void FlagTable::add_int(std::string_view names,
                        std::int64_t* target,
                        std::int64_t min,
                        std::int64_t max,
                        std::string help,
                        std::string default_text) {
  add({split_list(std::string(names)),
       "N",
       std::move(help),
       default_text.empty() ? std::to_string(*target) : std::move(default_text),
       "",
       false,
       false,
       [target, min, max](const std::string& text) -> Status {
         std::int64_t value = 0;
         const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
         if (error != std::errc{} || end != text.data() + text.size() || value < min ||
             value > max) {
           return invalid_argument("expected a whole number from " + std::to_string(min) + " to " +
                                   std::to_string(max) + ", found \"" + text + "\"");
         }
         *target = value;
         return ok();
       }});
}

void FlagTable::add_double(
    std::string_view names, double* target, double min, double max, std::string help) {
  add({split_list(std::string(names)),
       "X",
       std::move(help),
       std::isinf(*target) ? "inf" : short_number(*target),
       "",
       false,
       false,
       [target, min, max](const std::string& text) -> Status {
         double value = 0;
         const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
         if (error != std::errc{} || end != text.data() + text.size() || std::isnan(value) ||
             value < min || value > max) {
           return invalid_argument("expected a number from " + short_number(min) + " to " +
                                   (std::isinf(max) ? "inf" : short_number(max)) + ", found \"" +
                                   text + "\"");
         }
         *target = value;
         return ok();
       }});
}

void FlagTable::add_text(std::string_view names,
                         std::string* target,
                         std::string value_name,
                         std::string help) {
  add({split_list(std::string(names)),
       std::move(value_name),
       std::move(help),
       *target,
       "",
       false,
       false,
       [target](const std::string& text) -> Status {
         *target = text;
         return ok();
       }});
}

void FlagTable::add_texts(std::string_view names,
                          std::vector<std::string>* target,
                          std::string value_name,
                          std::string help) {
  add({split_list(std::string(names)),
       std::move(value_name),
       std::move(help),
       "",
       "",
       true,
       false,
       [target](const std::string& text) -> Status {
         target->push_back(text);
         return ok();
       }});
}

void FlagTable::add_choice(std::string_view names,
                           std::string* target,
                           std::vector<std::string> choices,
                           std::string help) {
  const std::string value_name = join(choices, "|");
  add({split_list(std::string(names)),
       value_name,
       std::move(help),
       *target,
       "",
       false,
       false,
       [target, choices = std::move(choices)](const std::string& text) -> Status {
         if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
           return invalid_argument("expected one of " + join(choices, ", ") + ", found \"" + text +
                                   "\"");
         }
         *target = text;
         return ok();
       }});
}

void FlagTable::add_switch(std::string_view names, bool* target, std::string help) {
  add({split_list(std::string(names)),
       "",
       std::move(help),
       *target ? "on" : "off",
       "",
       false,
       true,
       [target](const std::string& text) -> Status {
         PHALANX_TRY(*target, parse_switch(text));
         return ok();
       }});
}

void FlagTable::refuse(std::string_view names,
                       const std::string& reason,
                       const std::string& harmless_value) {
  for (const std::string& name : split_list(std::string(names))) {
    PHALANX_CHECK(find(name) == nullptr, "a name that is a flag is refused");
    refusals_[name] = {reason, harmless_value};
  }
}

void FlagTable::refuse_switch(std::string_view names, const std::string& reason, bool harmless) {
  for (const std::string& name : split_list(std::string(names))) {
    PHALANX_CHECK(find(name) == nullptr, "a name that is a flag is refused");
    refusals_[name] = {reason, harmless ? "true" : "false", true};
    refusals_["no-" + name] = {reason, harmless ? "false" : "true", true};
  }
}

bool FlagTable::Refusal::accepts(const std::string& value) const {
  if (!is_switch) {
    return !value.empty() && value == harmless_value;
  }
  const Result<bool> on = parse_switch(value);
  return on && *on == (harmless_value == "true");
}

void FlagTable::positional(std::string name) {
  positional_ = std::move(name);
}

void FlagTable::refuse_word(const std::string& word, const std::string& reason) {
  refused_words_[word] = reason;
}

void FlagTable::words(std::vector<std::string>* target, std::size_t most, std::string usage) {
  words_ = target;
  words_most_ = most;
  words_usage_ = std::move(usage);
}

void FlagTable::allow_environment(std::string variable) {
  allowed_environment_.push_back(std::move(variable));
}

const Flag* FlagTable::find(std::string_view name) const {
  for (const Flag& flag : flags_) {
    if (std::find(flag.names.begin(), flag.names.end(), name) != flag.names.end()) {
      return &flag;
    }
  }
  return nullptr;
}

Error FlagTable::unknown(const std::string& name, const std::string& origin) const {
  const std::string meant = closest(name, all_names());
  return invalid_argument("unknown setting \"" + name + "\" (" + origin + ")" +
                          (meant.empty() ? "" : "; did you mean \"" + meant + "\"?") + "; see " +
                          program_ + " --help");
}

std::vector<std::string> FlagTable::all_names() const {
  std::vector<std::string> result;
  for (const Flag& flag : flags_) {
    result.insert(result.end(), flag.names.begin(), flag.names.end());
  }
  return result;
}

bool FlagTable::knows(const std::string& setting) const {
  if (find(setting) != nullptr || refusals_.contains(setting)) {
    return true;
  }
  const Flag* negated = setting.starts_with("no-") ? find(setting.substr(3)) : nullptr;
  return negated != nullptr && negated->is_switch;
}

Status FlagTable::apply(const std::string& name,
                        const std::string& value,
                        const std::string& origin) {
  if (const auto refusal = refusals_.find(name); refusal != refusals_.end()) {
    if (refusal->second.accepts(value)) {
      return ok();
    }
    return Error(
        Code::kUnimplemented,
        (name.size() == 1 ? "-" : "--") + name + " is not supported: " + refusal->second.reason);
  }
  const bool negated = name.starts_with("no-") && find(name) == nullptr;
  const Flag* flag = find(negated ? name.substr(3) : name);
  if (flag == nullptr || (negated && !flag->is_switch)) {
    return unknown(name, origin);
  }
  const std::string& canonical = flag->names.front();
  if (const auto known = origins_.find(canonical); known != origins_.end()) {
    if (known->second != origin) {
      return ok();  // a source of higher precedence has set it
    }
    if (!flag->repeatable) {
      return invalid_argument("--" + canonical + " is given twice (" + origin + ")");
    }
  }
  std::string text = value;
  if (negated) {
    PHALANX_TRY(const bool off, parse_switch(text));
    text = off ? "false" : "true";
  }
  if (Status status = flag->set(text); !status) {
    return std::move(status).error().with("--" + canonical + " (" + origin + ")");
  }
  origins_[canonical] = origin;
  return ok();
}

Status FlagTable::apply_config_file() {
  if (config_path_.empty()) {
    return ok();
  }
  const std::string origin = "file " + config_path_;
  PHALANX_TRY(const std::vector<ConfigEntry> entries, read_config_file(config_path_));
  for (const ConfigEntry& entry : entries) {
    PHALANX_RETURN_IF_ERROR(apply_entry(entry, origin));
  }
  return ok();
}

Status FlagTable::apply_entry(const ConfigEntry& entry, const std::string& origin) {
  if (!knows(entry.name)) {
    return unknown(entry.name, origin);
  }
  const Flag* const flag = find(entry.name);
  const bool takes_any = refusals_.contains(entry.name) || (flag != nullptr && flag->repeatable);
  if (!takes_any && entry.values.size() != 1) {
    return invalid_argument("--" + (flag != nullptr ? flag->names.front() : entry.name) + " (" +
                            origin + "): expected one value, found " +
                            (entry.values.empty() ? "none" : std::to_string(entry.values.size())));
  }
  for (const std::string& value : entry.values) {
    PHALANX_RETURN_IF_ERROR(apply(entry.name, value, origin));
  }
  return ok();
}

Result<FlagTable::Request> FlagTable::parse(const std::vector<std::string>& arguments,
                                            const std::map<std::string, std::string>& environment) {
  Request request = Request::kRun;
  PHALANX_RETURN_IF_ERROR(apply_command_line(arguments, &request));
  if (request == Request::kRun) {
    PHALANX_RETURN_IF_ERROR(apply_environment(environment));
    PHALANX_RETURN_IF_ERROR(apply_config_file());
    for (const auto& [name, value] : defaults_) {
      PHALANX_RETURN_IF_ERROR(apply(name, value, "--" + std::string(kDefaultFlag)));
    }
  }
  return request;
}

std::vector<std::string> FlagTable::given() const {
  std::vector<std::string> names;
  for (const auto& [name, origin] : origins_) {
    if (origin == kCommandLine) {
      names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> arguments_of(int argc, char** argv) {
  return argc > 1 ? std::vector<std::string>(argv + 1, argv + argc) : std::vector<std::string>();
}

std::map<std::string, std::string> environment_of(char** environment) {
  std::map<std::string, std::string> result;
  for (char** entry = environment; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = std::min(text.find('='), text.size());
    result.emplace(text.substr(0, equals), text.substr(std::min(equals + 1, text.size())));
  }
  return result;
}

}  // namespace phalanx::flags
