// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::flags {

// One option of a program. `names[0]` is the spelling in help, in the environment
// (PHALANX_MAX_NUM_SEQS) and in the configuration file; the others are aliases. Names carry no
// dashes in front; `_` and `-` are the same.
struct Flag {
  std::vector<std::string> names;
  std::string value_name;    // "N"; empty for a switch
  std::string help;          // one sentence
  std::string default_text;  // as shown in help; may be empty
  std::string group;
  bool repeatable = false;
  bool is_switch = false;  // true or false; --NAME alone sets "true", --no-NAME "false"
  std::function<Status(const std::string&)>
      set;                   // parses, checks and stores; the message names expected and found
  bool takes_words = false;  // "--NAME a b" is "--NAME a --NAME b"
  bool is_amount = false;    // a number that may end in a multiplier
};

// What an amount is counted in.
enum class Unit { kBytes, kTokens };

struct CommandLineSyntax;
struct ConfigEntry;

// The options of one program, in one table: command line, environment, configuration file, help and
// documentation all come from it. A spelling that is known and not supported is refused by name
// with its reason, never ignored.
//
// Precedence: command line, then environment (prefix + NAME), then --config FILE (TOML, top-level
// keys), then --default NAME=VALUE, by which what starts a program leaves its choices to the user
// without knowing where they are made, then the default of the flag.
// Ownership: the targets passed to add_* stay the caller's and must outlive parse().
// Threads: one.
class FlagTable {
 public:
  // `env_prefix` as in "PHALANX_".
  FlagTable(std::string program, std::string summary, std::string env_prefix);

  // Headline of the flags added from now on.
  void group(std::string title);

  // `names` is "tensor-parallel-size,tp". A value outside [min, max] is refused with both bounds
  // named. Help shows `default_text` as the default, or else the value that `target` has.
  void add_int(std::string_view names,
               std::int64_t* target,
               std::int64_t min,
               std::int64_t max,
               std::string help,
               std::string default_text = "");
  // The same with a multiplier behind it, or none: k, m and g are 1000, 1000^2 and 1000^3, as for
  // vLLM; K, M, G or Ki, Mi, Gi are 1024, 1024^2 and 1024^3.
  void add_amount(std::string_view names,
                  std::int64_t* target,
                  std::int64_t min,
                  std::int64_t max,
                  Unit unit,
                  std::string help);
  void add_double(std::string_view names, double* target, double min, double max, std::string help);
  void add_text(std::string_view names,
                std::string* target,
                std::string value_name,
                std::string help);
  void add_texts(std::string_view names,
                 std::vector<std::string>* target,
                 std::string value_name,
                 std::string help);
  void add_choice(std::string_view names,
                  std::string* target,
                  std::vector<std::string> choices,
                  std::string help);
  void add_switch(std::string_view names, bool* target, std::string help);
  void add(Flag flag);

  // `names` are refused wherever they appear, with "--NAME is not supported: reason". If
  // `harmless_value` is not empty, that one value is accepted, as it asks for what the program does
  // anyway (--pipeline-parallel-size 1). Requires names that are no flags.
  void refuse(std::string_view names,
              const std::string& reason,
              const std::string& harmless_value = "");

  // The same of switches, which have no value behind them: accepted if they are switched to
  // `harmless`, also as --no-NAME.
  void refuse_switch(std::string_view names, const std::string& reason, bool harmless);

  // A first argument without dashes sets this flag ("phalanxd MODEL").
  void positional(std::string name);

  // … unless it is `word`, a command of other programs, which is refused with the reason.
  void refuse_word(const std::string& word, const std::string& reason);

  // Arguments without dashes are appended to `target`, at most `most` of them; `usage` stands for
  // them in help ("COMMAND [ARGUMENT]").
  void words(std::vector<std::string>* target, std::size_t most, std::string usage);

  // What the arguments ask for besides running.
  enum class Request { kRun, kHelp, kVersion };

  // Reads all sources. `environment` holds every variable of the process. One that has the prefix
  // and names a flag sets it, unless its value is empty; others are left aside, with a note:
  // Kubernetes puts the addresses of its services into every environment (for one named like the
  // prefix that is PREFIX_PORT=tcp://…), and a misspelt setting must not be lost silently.
  [[nodiscard]] Result<Request> parse(const std::vector<std::string>& arguments,
                                      const std::map<std::string, std::string>& environment);

  // What parse() left aside, for the log of the program.
  struct Note {
    bool is_warning = false;
    std::string text;  // one sentence
  };
  [[nodiscard]] const std::vector<Note>& notes() const { return notes_; }

  // The flags that parse() found on the command line, by their first names; not those of the
  // environment or a file, which may be meant for other uses of the program.
  [[nodiscard]] std::vector<std::string> given() const;

  // One more paragraph of the help, behind the flags.
  void section(std::string title, std::string text);

  // A variable with the prefix that another program reads; one that ends in _ stands for all that
  // begin so. No note is made of it.
  void allow_environment(std::string variable);

  [[nodiscard]] std::string help_text() const;
  [[nodiscard]] const std::vector<Flag>& flags() const { return flags_; }

 private:
  struct Refusal {
    std::string reason;
    std::string harmless_value;
    bool is_switch = false;  // true or false, in any spelling

    [[nodiscard]] bool accepts(const std::string& value) const;
  };

  [[nodiscard]] const Flag* find(std::string_view name) const;
  [[nodiscard]] Status apply(const std::string& name,
                             const std::string& value,
                             const std::string& origin);
  [[nodiscard]] CommandLineSyntax syntax() const;
  // `arguments` with the name of a flag that takes words before each of its words.
  [[nodiscard]] std::vector<std::string> with_repeated_flags(
      const std::vector<std::string>& arguments) const;
  // Applies the refused spellings, with or without a value, so that the message is their reason;
  // returns the other arguments. What is the value of another flag, or stands behind "--", is none.
  [[nodiscard]] Result<std::vector<std::string>> apply_refusals(
      const std::vector<std::string>& arguments);
  [[nodiscard]] Status apply_command_line(const std::vector<std::string>& arguments,
                                          Request* request);
  [[nodiscard]] Status note_default(const std::string& assignment);
  [[nodiscard]] Status apply_environment(const std::map<std::string, std::string>& environment);
  [[nodiscard]] Status apply_config_file();
  [[nodiscard]] Status apply_entry(const ConfigEntry& entry, const std::string& origin);
  [[nodiscard]] Status apply_word(const std::string& word, std::size_t index);
  [[nodiscard]] bool knows(const std::string& setting) const;
  [[nodiscard]] bool is_allowed(const std::string& variable) const;
  [[nodiscard]] Error unknown(const std::string& name, const std::string& origin) const;
  // Every name, "no-" forms left out.
  [[nodiscard]] std::vector<std::string> all_names() const;

  std::string program_;
  std::string summary_;
  std::string env_prefix_;
  std::string group_;
  std::string positional_;
  std::vector<std::string>* words_ = nullptr;
  std::size_t words_most_ = 0;
  std::string words_usage_;
  std::vector<Note> notes_;
  std::string config_path_;
  std::vector<std::pair<std::string, std::string>> defaults_;  // of --default: name and value
  std::vector<Flag> flags_;
  std::map<std::string, Refusal, std::less<>> refusals_;
  std::map<std::string, std::string, std::less<>> refused_words_;  // with their reasons
  std::vector<std::string> allowed_environment_;
  std::vector<std::pair<std::string, std::string>> sections_;  // title and text
  std::map<std::string, std::string, std::less<>>
      origins_;  // canonical name → origin of the value in force
};

// argv and environ as parse() takes them.
[[nodiscard]] std::vector<std::string> arguments_of(int argc, char** argv);
[[nodiscard]] std::map<std::string, std::string> environment_of(char** environment);

}  // namespace phalanx::flags
