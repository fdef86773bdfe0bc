// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include "builtins.h"

namespace phalanx::jinja {

Result<Parameters> Parameters::bind(Arguments& arguments,
                                    std::initializer_list<std::string_view> names) {
  Parameters parameters;
  parameters.names_ = names;
  parameters.values_.resize(names.size());
  if (arguments.positional.size() > names.size()) {
    return invalid_argument("expected at most " + std::to_string(names.size()) +
                            " arguments, found " + std::to_string(arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    parameters.values_[i] = std::move(arguments.positional[i]);
  }
  for (auto& [name, value] : arguments.named) {
    const auto place = std::find(parameters.names_.begin(), parameters.names_.end(), name);
    const auto index = static_cast<std::size_t>(place - parameters.names_.begin());
    if (place == parameters.names_.end() || parameters.values_[index].has_value()) {
      return invalid_argument("unexpected argument \"" + name + "\"");
    }
    parameters.values_[index] = std::move(value);
  }
  return parameters;
}

Result<Value> Parameters::required(std::size_t index) const {
  if (!values_[index].has_value()) {
    return invalid_argument("missing argument \"" + std::string(names_[index]) + "\"");
  }
  return *values_[index];
}

Result<bool> Parameters::boolean(std::size_t index, bool fallback) const {
  return values_[index].has_value() ? values_[index]->is_true() : fallback;
}

Result<std::int64_t> Parameters::integer(std::size_t index, std::int64_t fallback) const {
  if (!values_[index].has_value()) {
    return fallback;
  }
  const auto integer = values_[index]->as_integer();
  if (!integer.has_value()) {
    return invalid_argument("argument \"" + std::string(names_[index]) +
                            "\": expected an integer, found " +
                            std::string(values_[index]->type_name()));
  }
  return *integer;
}

Result<MarkedText> Parameters::text(std::size_t index, std::string_view fallback) const {
  if (!values_[index].has_value()) {
    return MarkedText::literal(std::string(fallback));
  }
  const MarkedText* const text = values_[index]->as_text();
  if (text == nullptr) {
    return invalid_argument("argument \"" + std::string(names_[index]) +
                            "\": expected a string, found " +
                            std::string(values_[index]->type_name()));
  }
  return *text;
}

}  // namespace phalanx::jinja
