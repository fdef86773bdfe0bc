// SPDX-License-Identifier: Apache-2.0
#include "phalanx/jinja/template.h"

#include <utility>

#include "phalanx/base/utf8.h"

#include "interpreter.h"
#include "parser.h"
#include "survey.h"
#include "unset_names.h"

namespace phalanx::jinja {

struct Template::Program {
  Body body;
  Survey survey;
  UnsetNames unset_names;
};

Template::Template(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::compile(std::string_view source) {
  if (!is_valid_utf8(source)) {
    return invalid_argument("expected UTF-8");
  }
  auto program = std::make_unique<Program>();
  PHALANX_TRY(program->body, parse_template(source));
  program->survey = survey(program->body);
  program->unset_names = UnsetNames(program->body);
  return Template(std::move(program));
}

Result<MarkedText> Template::render(const Variables& variables,
                                    const Limits& limits,
                                    std::chrono::system_clock::time_point now) const {
  Scope globals(nullptr);
  for (const auto& [name, value] : variables) {
    if (mentions(name)) {  // clients may give any number of others
      globals.set(name, value);
    }
  }
  Interpreter interpreter(limits, program_->unset_names, now);
  return interpreter.run(program_->body, globals);
}

bool Template::mentions(std::string_view variable) const {
  return program_->survey.names.contains(variable);
}

bool Template::takes_lists_only() const {
  return iterates_content() && !program_->survey.asks_for_types;
}

bool Template::iterates_content() const {
  return program_->survey.iterates_content;
}

}  // namespace phalanx::jinja
