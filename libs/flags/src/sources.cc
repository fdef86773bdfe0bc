// SPDX-License-Identifier: Apache-2.0
#include "sources.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include <boost/program_options.hpp>
#include <toml++/toml.h>

#include "phalanx/os/read_file.h"

#include "suggestion.h"

namespace phalanx::flags {

namespace {

namespace po = boost::program_options;

constexpr std::size_t kMaxConfigFileBytes = std::size_t{1} << 20;

// "--max_num_seqs=4" → "--max-num-seqs=4", "-tp" → "--tp" and "-h" → "--help": only the name part
// changes.
std::string normalised(const std::string& argument) {
  if (argument == "-h") {
    return "--help";
  }
  if (argument.size() < 2 || argument[0] != '-') {
    return argument;
  }
  std::string result = argument;
  if (argument[1] != '-' && argument.size() > 2 &&
      (std::isalpha(static_cast<unsigned char>(argument[1])) != 0)) {
    result = "-" + result;
  }
  const std::size_t end = std::min(result.find('='), result.size());
  std::replace(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return result;
}

std::string without_dashes(std::string name) {
  name.erase(0, name.find_first_not_of('-'));
  return name;
}

// "--NAME=VALUE" of a switch. Boost knows a value that may be left out only as one that may also be
// the next word, which belongs to no switch.
std::optional<CommandLineArgument> assigned_switch(const CommandLineSyntax& syntax,
                                                   const std::string& word) {
  const std::size_t equals = word.find('=');
  if (!word.starts_with("--") || equals == std::string::npos || equals + 1 == word.size()) {
    return std::nullopt;
  }
  std::string name = word.substr(2, equals - 2);
  if (std::find(syntax.switches.begin(), syntax.switches.end(), name) == syntax.switches.end()) {
    return std::nullopt;
  }
  return CommandLineArgument{std::move(name), word.substr(equals + 1)};
}

Error unknown_option(const CommandLineSyntax& syntax, const std::string& spelled) {
  const std::string name = without_dashes(spelled);
  std::vector<std::string> known = syntax.switches;
  known.insert(known.end(), syntax.valued.begin(), syntax.valued.end());
  const std::string meant = closest(name, known);
  return invalid_argument("unknown option " + spelled +
                          (meant.empty() ? "" : "; did you mean --" + meant + "?") + "; see " +
                          syntax.program + " --help");
}

Error value_is_option(const std::string& name, const std::string& value) {
  return invalid_argument("--" + name + ": expected a value, found the option " + value +
                          "; a value like that is written --" + name + "=" + value);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "--NAME=" of a flag with a value, which is empty: Boost knows that only as a word of its own.
bool splits_off_nothing(const CommandLineSyntax& syntax, std::vector<std::string>* words) {
  std::string& word = words->back();
  if (!word.starts_with("--") || !word.ends_with('=') ||
      !contains(syntax.valued, word.substr(2, word.size() - 3))) {
    return false;
  }
  word.pop_back();
  words->emplace_back();
  return true;
}

// The words before a "--", ready for Boost: names normalised, and each value, which is anything
// that is not the name of a flag itself, joined to its own. What is a value is not changed.
Result<std::vector<std::string>> join_values(const CommandLineSyntax& syntax,
                                             std::span<const std::string> arguments) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    words.push_back(normalised(arguments[i]));
    if (splits_off_nothing(syntax, &words)) {
      continue;
    }
    const std::string name = without_dashes(words.back());
    if (!words.back().starts_with("--") || !contains(syntax.valued, name) ||
        i + 1 == arguments.size()) {
      continue;
    }
    const std::string& value = arguments[++i];
    const std::string other = normalised(value.substr(0, value.find('=')));
    if (other.starts_with("--") && (contains(syntax.valued, without_dashes(other)) ||
                                    contains(syntax.switches, without_dashes(other)))) {
      return value_is_option(name, value);
    }
    if (value.empty()) {
      words.emplace_back();
    } else {
      words.back() += "=" + value;
    }
  }
  return words;
}

void append_argument(const po::option& option, std::vector<CommandLineArgument>* out) {
  if (option.position_key < 0 && !option.string_key.empty()) {
    out->push_back({option.string_key, option.value.empty() ? "true" : option.value.front()});
    return;
  }
  for (const std::string& word : option.value) {
    out->push_back({"", word});
  }
}

// All digits of it. With a point or an exponent, so that it is no whole number.
std::string text_of(double number) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.begin(), buffer.end(), number).ptr;
  std::string text(buffer.begin(), end);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

Status append_value(const std::string& key, const toml::node& node, std::vector<std::string>* out) {
  std::string value;
  if (const auto* text = node.as_string()) {
    value = text->get();
    if (value.find('\0') != std::string::npos) {
      return invalid_argument("key \"" + key +
                              "\": expected text as a command line may have it, found a zero byte "
                              "in it");
    }
  } else if (const auto* integer = node.as_integer()) {
    value = std::to_string(integer->get());
  } else if (const auto* number = node.as_floating_point()) {
    value = text_of(number->get());
  } else if (const auto* boolean = node.as_boolean()) {
    value = boolean->get() ? "true" : "false";
  } else {
    return invalid_argument(
        "key \"" + key +
        "\": expected a string, number, boolean or an array of these, found a table, date or array "
        "of arrays");
  }
  out->push_back(std::move(value));
  return ok();
}

Status append_values(const std::string& key,
                     const toml::node& node,
                     std::vector<std::string>* out) {
  const auto* const array = node.as_array();
  if (array == nullptr) {
    return append_value(key, node, out);
  }
  for (const toml::node& element : *array) {
    PHALANX_RETURN_IF_ERROR(append_value(key, element, out));
  }
  return ok();
}

std::string place_of(const std::string& path, const toml::source_region& source) {
  return "config file " + path + ", line " + std::to_string(source.begin.line);
}

}  // namespace

Result<std::vector<CommandLineArgument>> split_command_line(
    const CommandLineSyntax& syntax, const std::vector<std::string>& arguments) {
  po::options_description description;
  for (const std::string& name : syntax.switches) {
    description.add_options()(name.c_str(), "");
  }
  for (const std::string& name : syntax.valued) {
    description.add_options()(name.c_str(), po::value<std::string>(), "");
  }
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  PHALANX_TRY(std::vector<std::string> words,
              join_values(syntax, std::span(arguments.begin(), end)));
  std::vector<CommandLineArgument> result;
  std::erase_if(words, [&](const std::string& word) {
    auto set = assigned_switch(syntax, word);
    const bool is_set = set.has_value();
    if (is_set) {
      result.push_back(*std::move(set));
    }
    return is_set;
  });
  try {
    const int style = po::command_line_style::allow_long |
                      po::command_line_style::long_allow_adjacent |
                      po::command_line_style::long_allow_next;
    const po::parsed_options parsed =
        po::command_line_parser(words).options(description).style(style).run();
    for (const po::option& option : parsed.options) {
      append_argument(option, &result);
      if (result.back().name.empty() && result.back().value.size() > 1 &&
          result.back().value.starts_with('-')) {
        return unknown_option(syntax, result.back().value);
      }
    }
  } catch (const po::unknown_option& error) {
    return unknown_option(syntax, "--" + without_dashes(error.get_option_name()));
  } catch (const po::error& error) {
    return invalid_argument(error.what());
  }
  if (end != arguments.end()) {
    std::for_each(end + 1, arguments.end(), [&](const std::string& word) {
      result.push_back({"", word});
    });
  }
  return result;
}

Result<std::vector<ConfigEntry>> read_config_file(const std::string& path) {
  std::vector<ConfigEntry> result;
  auto text = os::read_file(path, kMaxConfigFileBytes);
  if (!text) {
    return std::move(text).error().with("--config");
  }
  try {
    const toml::table table = toml::parse(*text, path);
    for (const auto& [key, node] : table) {
      std::string name(key.str());
      std::replace(name.begin(), name.end(), '_', '-');
      if (name == "config") {
        return invalid_argument("key \"config\": a file names no other one")
            .with(place_of(path, key.source()));
      }
      ConfigEntry entry{std::move(name), {}};
      if (Status status = append_values(entry.name, node, &entry.values); !status) {
        return std::move(status).error().with(place_of(path, key.source()));
      }
      result.push_back(std::move(entry));
    }
  } catch (const toml::parse_error& error) {
    return invalid_argument(std::string(error.description())).with(place_of(path, error.source()));
  }
  return result;
}

}  // namespace phalanx::flags
