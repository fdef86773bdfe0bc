// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/jinja/limits.h"
#include "phalanx/jinja/marked_text.h"
#include "phalanx/jinja/value.h"

namespace phalanx::jinja {

// A compiled template: the part of Jinja that chat templates are written in, with the output of
// Python's Jinja in Hugging Face's configuration (trim_blocks, lstrip_blocks, loop controls, tojson
// without escapes). It sees the values it is given and cannot reach anything else.
//
// Threads: render() is const and may be called from any thread at the same time, as long as no two
// renderings share a value that can be gone through once.
class Template {
 public:
  using Variables = std::vector<std::pair<std::string, Value>>;

  // Errors: kInvalidArgument  not UTF-8; a syntax error, with its line
  //         kUnimplemented    a tag, filter, test, function or method that this version does not
  //                           have, by name and line: a template never fails on one when it runs
  [[nodiscard]] static Result<Template> compile(std::string_view source);

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;
  ~Template();

  // Of two variables of one name the later counts. `now` is what strftime_now() tells, in local
  // time.
  //
  // Errors: kInvalidArgument    raise_exception was called (its message), or an operation does not
  //                             fit its values ("'undefined' has no attribute …", with the line)
  //         kResourceExhausted  a limit was reached
  [[nodiscard]] Result<MarkedText> render(const Variables& variables,
                                          const Limits& limits,
                                          std::chrono::system_clock::time_point now) const;

  // Whether the variable is named anywhere; if not, it cannot reach the output.
  [[nodiscard]] bool mentions(std::string_view variable) const;
  // Whether it goes through the parts of something called content, so that contents may be lists.
  [[nodiscard]] bool iterates_content() const;
  // The same, without a look at whether they are lists: it would go through the characters of a
  // text.
  [[nodiscard]] bool takes_lists_only() const;

 private:
  struct Program;
  explicit Template(std::unique_ptr<const Program> program);

  std::unique_ptr<const Program> program_;
};

}  // namespace phalanx::jinja
