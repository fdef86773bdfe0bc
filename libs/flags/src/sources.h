// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::flags {

inline constexpr const char* kCommandLine = "command line";  // as an origin of values
inline constexpr const char* kDefaultFlag = "default";       // --default NAME=VALUE

struct CommandLineSyntax {
  std::string program;                // whose --help errors name
  std::vector<std::string> switches;  // every spelling that needs no value
  std::vector<std::string> valued;    // every spelling that takes one
};

struct CommandLineArgument {
  std::string name;   // without dashes; empty for a positional argument
  std::string value;  // "true" of a switch that stands alone
};

// Splits `arguments` (without argv[0]) by the rules of Boost.Program_options; `-tp 2`, `--tp=2` and
// `--max_num_seqs 4` are understood. Values are taken as they are; behind "--" no word is an
// option.
// Errors: kInvalidArgument for an unknown spelling or a missing value, as where the name of another
// option follows.
[[nodiscard]] Result<std::vector<CommandLineArgument>> split_command_line(
    const CommandLineSyntax& syntax, const std::vector<std::string>& arguments);

// A top-level key of a TOML file.
struct ConfigEntry {
  std::string name;
  std::vector<std::string> values;  // as texts; those of an array, which may have none
};

// Numbers keep all their digits.
//
// Blocks: reads the file.
// Errors: kInvalidArgument  no TOML of names and values, a text with a zero byte, or the name is
//                           "config"; says the line or the key
//         else as os::read_file() with 1 MiB
[[nodiscard]] Result<std::vector<ConfigEntry>> read_config_file(const std::string& path);

}  // namespace phalanx::flags
