// SPDX-License-Identifier: Apache-2.0
#include "ignored_fields.h"

#include "phalanx/obs/log.h"

namespace phalanx::serving {
namespace {

constexpr std::size_t kMaxTextBytes = 512;

std::string visible(const std::string& name) {
  std::string out = name;
  for (char& c : out) {
    c = c > 0x20 && c < 0x7F && c != ',' ? c : '?';
  }
  return out;
}

}  // namespace

void IgnoredFields::note(const std::string& route, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (seen_.size() >= kMaxNames) {
      return;
    }
    if (seen_.insert(visible(name)).second) {
      obs::log_warn("unknown_field", {{"route", route}, {"field", visible(name)}});
    }
  }
}

std::string ignored_fields_text(const std::vector<std::string>& names) {
  constexpr std::string_view kMore = "...";
  std::string text;
  for (const std::string& name : names) {
    const std::string next = (text.empty() ? "" : ",") + visible(name);
    if (text.size() + next.size() + kMore.size() + 1 > kMaxTextBytes) {
      return text.append(text.empty() ? "" : ",").append(kMore);
    }
    text += next;
  }
  return text;
}

void add_ignored_fields(const std::string& names, http::Headers* headers) {
  if (!names.empty()) {
    headers->set("x-phalanx-ignored-fields", names);
  }
}

std::optional<openai::ApiError> refuse_unknown(const std::vector<std::string>& names) {
  if (names.empty()) {
    return std::nullopt;
  }
  const std::string name = visible(names.front());
  return openai::invalid_field(name,
                               name +
                                   ": this server knows no such field, and with --strict-api it "
                                   "refuses what it would otherwise ignore; leave it out");
}

}  // namespace phalanx::serving
