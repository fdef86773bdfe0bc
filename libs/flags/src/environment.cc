// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <utility>

#include "phalanx/flags/flag_table.h"

#include "suggestion.h"

namespace phalanx::flags {

namespace {

// "PHALANX_MAX_NUM_SEQS" → "max-num-seqs"
std::string setting_of(std::string_view variable, std::string_view prefix) {
  std::string result(variable.substr(prefix.size()));
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) {
    return c == '_' ? '-' : static_cast<char>(std::tolower(c));
  });
  return result;
}

std::string variable_of(const std::string& setting, const std::string& prefix) {
  std::string result = prefix;
  for (const char c : setting) {
    result += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return result;
}

bool is_service_address(std::string_view value) {
  return value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
}

// "8000_TCP", "8000_TCP_ADDR"
bool names_service_port(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(digits);
  for (const std::string_view protocol : {"_TCP", "_UDP", "_SCTP"}) {
    if (digits > 0 && text.starts_with(protocol)) {
      const std::string_view rest = text.substr(protocol.size());
      return rest.empty() || rest == "_PROTO" || rest == "_PORT" || rest == "_ADDR";
    }
  }
  return false;
}

// The variables that Kubernetes, and Docker's links before it, make of a service SVC:
// SVC_SERVICE_HOST, SVC_SERVICE_PORT, SVC_SERVICE_PORT_NAME, SVC_PORT=tcp://…, SVC_PORT_8000_TCP
// and its parts.
bool is_service_link(std::string_view variable, std::string_view value) {
  if (variable.ends_with("_SERVICE_HOST") || variable.ends_with("_SERVICE_PORT") ||
      variable.find("_SERVICE_PORT_") != std::string_view::npos) {
    return true;
  }
  if (variable.ends_with("_PORT") && is_service_address(value)) {
    return true;
  }
  const std::size_t port = variable.rfind("_PORT_");
  return port != std::string_view::npos && names_service_port(variable.substr(port + 6));
}

}  // namespace

bool FlagTable::is_allowed(const std::string& variable) const {
  return std::any_of(
      allowed_environment_.begin(), allowed_environment_.end(), [&](const std::string& allowed) {
        return allowed.ends_with('_') ? variable.starts_with(allowed) : variable == allowed;
      });
}

Status FlagTable::apply_environment(const std::map<std::string, std::string>& environment) {
  std::string links;
  for (const auto& [variable, value] : environment) {
    if (!variable.starts_with(env_prefix_) || value.empty()) {
      continue;
    }
    if (is_service_link(variable, value)) {
      links += (links.empty() ? "" : ", ") + variable;
      continue;
    }
    const std::string setting = setting_of(variable, env_prefix_);
    if (knows(setting)) {
      if (Status status = apply(setting, value, "environment"); !status) {
        return std::move(status).error().with(variable);
      }
    } else if (!is_allowed(variable)) {
      const std::string meant = closest(setting, all_names());
      notes_.push_back(
          {true,
           variable + " in the environment is no setting and has no effect" +
               (meant.empty() ? "" : "; did you mean " + variable_of(meant, env_prefix_) + "?")});
    }
  }
  if (!links.empty()) {
    notes_.push_back({false, "addresses of a Kubernetes service, not settings: " + links});
  }
  return ok();
}

}  // namespace phalanx::flags
