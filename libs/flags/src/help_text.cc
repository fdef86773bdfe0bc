// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>

#include "phalanx/flags/flag_table.h"

namespace phalanx::flags {

namespace {

constexpr std::size_t kIndent = 4;
constexpr std::size_t kColumns = 100;

std::string spelling(const Flag& flag) {
  std::string result;
  for (const std::string& name : flag.names) {
    result += (result.empty() ? "--" : ", --") + name;
  }
  if (flag.is_switch) {
    result += ", --no-" + flag.names.front();
  }
  return flag.value_name.empty() ? result : result + " " + flag.value_name;
}

// A line of prose.
void append_wrapped(const std::string& text, std::size_t indent, std::string* out) {
  std::size_t column = 0;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    const std::size_t length = end - start;
    if (start == 0) {
      out->append(indent, ' ');
      column = indent;
    } else if (column + 1 + length > kColumns) {
      out->append("\n").append(indent, ' ');
      column = indent;
    } else {
      out->append(" ");
      ++column;
    }
    out->append(text, start, length);
    column += length;
    start = end + 1;
  }
  out->append("\n");
}

}  // namespace

std::string FlagTable::help_text() const {
  std::string out;
  std::istringstream lines(summary_);
  for (std::string line; std::getline(lines, line);) {
    append_wrapped(line, 0, &out);
  }
  out += "\nusage: " + program_ + (positional_.empty() ? "" : " [" + positional_ + "]") +
         (words_usage_.empty() ? "" : " " + words_usage_) + " [options]\n";
  std::string group = "\n";  // no title is equal to it, so the first flag always starts a group
  for (const Flag& flag : flags_) {
    if (flag.group != group) {
      group = flag.group;
      out += "\n" + (group.empty() ? std::string("General") : group) + "\n";
    }
    out.append(kIndent, ' ').append(spelling(flag)).append("\n");
    append_wrapped(
        flag.help + (flag.default_text.empty() ? "." : " (default " + flag.default_text + ")."),
        2 * kIndent,
        &out);
  }
  for (const auto& [title, text] : sections_) {
    out += "\n" + title + "\n";
    append_wrapped(text, 2 * kIndent, &out);
  }
  if (std::any_of(flags_.begin(), flags_.end(), [](const Flag& flag) { return flag.is_amount; })) {
    out += "\nBYTES and TOKENS\n";
    append_wrapped(
        "May end in k, m or g, which are 1000, 1000^2 and 1000^3, or in K, M or G, or Ki, Mi or "
        "Gi, which are 1024, 1024^2 and 1024^3: 4k, 512M, 2Gi.",
        2 * kIndent,
        &out);
  }
  out += "\n    -h, --help\n        Show this.\n    --version\n        Show the version.\n\n";
  append_wrapped(
      "What is on or off is switched on by --NAME or --NAME=true, off by --no-NAME or "
      "--NAME=false.",
      0,
      &out);
  append_wrapped("Every option can also be set by " + env_prefix_ +
                     "NAME in the environment (in capitals, - as _; empty is as unset), or in the "
                     "--config file. The command line wins over the environment, the environment "
                     "over the file, and that over --default NAME=VALUE, which is for what starts "
                     "the program.",
                 0,
                 &out);
  return out;
}

}  // namespace phalanx::flags
