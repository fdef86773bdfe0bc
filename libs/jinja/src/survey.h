// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <string>

#include "ast.h"

namespace phalanx::jinja {

// What the syntax of a template tells about the variables it takes.
struct Survey {
  std::set<std::string, std::less<>> names;  // every name that is read anywhere
  // It goes through the parts of something called content, so contents may be lists.
  bool iterates_content = false;
  bool asks_for_types = false;  // whether something is a text, a list or an object
};

[[nodiscard]] Survey survey(const Body& body);

}  // namespace phalanx::jinja
