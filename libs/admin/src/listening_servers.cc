// SPDX-License-Identifier: Apache-2.0
#include "listening_servers.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <tuple>

#include "phalanx/admin/admin_server.h"
#include "phalanx/os/read_file.h"

namespace phalanx::admin {

namespace {

constexpr std::size_t kMostNamed = 4;

// A line for each socket of the machine.
constexpr std::size_t kMaxTableBytes = std::size_t{16} << 20;

// What the kernel shows of a socket that listens (__SO_ACCEPTCON).
constexpr std::uint32_t kListens = 1U << 16;

template <typename Number>
std::optional<Number> number_in(std::string_view text, int base) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

std::optional<AdminAddress> address_in(std::string_view name) {
  const std::size_t dash = name.rfind('-');
  const std::size_t before = dash == std::string_view::npos ? dash : name.rfind('-', dash - 1);
  if (dash == std::string_view::npos || before == std::string_view::npos) {
    return std::nullopt;
  }
  const auto uid = number_in<std::uint32_t>(name.substr(before + 1, dash - before - 1), 10);
  const auto port = number_in<std::uint16_t>(name.substr(dash + 1), 10);
  // The whole name, and each number as it is written there.
  if (!uid || !port || name != "@" + admin_socket_name(*uid, *port)) {
    return std::nullopt;
  }
  return AdminAddress{*uid, *port};
}

// Num RefCount Protocol Flags Type St Inode Path
std::optional<AdminAddress> listener_in(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  std::string flags;
  for (int field = 0; field < 7; ++field) {
    words >> (field == 3 ? flags : word);
  }
  std::string name;
  if (!(words >> name) || words >> word) {
    return std::nullopt;
  }
  const auto bits = number_in<std::uint32_t>(flags, 16);
  return bits && (*bits & kListens) != 0 ? address_in(name) : std::nullopt;
}

}  // namespace

std::vector<AdminAddress> listening_servers(std::string_view text) {
  std::vector<AdminAddress> servers;
  std::istringstream lines{std::string(text)};
  std::string line;
  while (std::getline(lines, line)) {
    if (const auto server = listener_in(line)) {
      servers.push_back(*server);
    }
  }
  const auto key = [](const AdminAddress& server) { return std::tuple(server.uid, server.port); };
  std::ranges::sort(servers, {}, key);
  // Not std::ranges::unique: clang 14 does not take the subrange of libstdc++ 12.
  const auto same = [&](const AdminAddress& a, const AdminAddress& b) { return key(a) == key(b); };
  servers.erase(std::unique(servers.begin(), servers.end(), same), servers.end());
  return servers;
}

std::vector<AdminAddress> listening_servers() {
  const auto table = os::read_file("/proc/net/unix", kMaxTableBytes);
  return table ? listening_servers(*table) : std::vector<AdminAddress>{};
}

std::string advice_of(const std::vector<AdminAddress>& servers, std::uint32_t self) {
  std::string advice;
  for (std::size_t i = 0; i < std::min(servers.size(), kMostNamed); ++i) {
    const AdminAddress& server = servers[i];
    const std::string uid = std::to_string(server.uid);
    const std::string port = std::to_string(server.port);
    const bool is_own = server.uid == self;
    advice += i == 0 ? "there is one" : "; one";
    if (!is_own) {
      advice.append(" of user ").append(uid);
    }
    advice.append(" at port ").append(port).append(": phalanxctl ");
    if (!is_own) {
      advice.append("--uid ").append(uid).append(" ");
    }
    advice.append("--port ").append(port);
  }
  if (servers.size() > kMostNamed) {
    advice += "; and " + std::to_string(servers.size() - kMostNamed) + " more";
  }
  return advice;
}

}  // namespace phalanx::admin
