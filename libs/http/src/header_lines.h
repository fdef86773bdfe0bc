// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "characters.h"

namespace phalanx::http {

// Watches the lines of a header as they are used up. A line that goes on the one before it
// (obs-fold) is read as one field here and as two by others, so it is refused; a limit on fields
// bounds what a header of many tiny ones costs.
class HeaderLines {
 public:
  void take(std::string_view bytes) {
    for (const char byte : bytes) {
      folded_ = folded_ || (at_start_ && lines_ > 0 && is_blank(byte));
      at_start_ = byte == '\n';
      lines_ += at_start_ ? 1U : 0U;
    }
    bytes_ += bytes.size();
  }
  [[nodiscard]] bool folded() const { return folded_; }
  [[nodiscard]] std::size_t lines() const { return lines_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t lines_ = 0;
  std::size_t bytes_ = 0;
  bool at_start_ = false;
  bool folded_ = false;
};

// Of the value of a field that is a list; lists of several fields of one name are one.
inline void append_members(std::string_view list, std::vector<std::string>* members) {
  while (!list.empty()) {
    std::string_view member = list.substr(0, list.find(','));
    list.remove_prefix(member.size() < list.size() ? member.size() + 1 : member.size());
    while (!member.empty() && is_blank(member.front())) {
      member.remove_prefix(1);
    }
    while (!member.empty() && is_blank(member.back())) {
      member.remove_suffix(1);
    }
    if (!member.empty()) {
      members->emplace_back(member);
    }
  }
}

}  // namespace phalanx::http
