// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "characters.h"

namespace phalanx::http {

// Of the value of a field that is a list; lists of several fields of one name are one.
inline void append_members(std::string_view list, std::vector<std::string>* members) {
  while (!list.empty()) {
    std::string_view member = list.substr(0, list.find(','));
    list.remove_prefix(member.size() < list.size() ? member.size() + 1 : member.size());
    member = without_blanks(member);
    if (!member.empty()) {
      members->emplace_back(member);
    }
  }
}

}  // namespace phalanx::http
