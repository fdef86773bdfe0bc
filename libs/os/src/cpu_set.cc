// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/cpu_set.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>

namespace phalanx::os {

namespace {

constexpr std::uint32_t kMaxCpu = 4095;
constexpr std::size_t kMaskCpus = kMaxCpu + 1;

// An affinity mask of kMaskCpus bits; cpu_set_t ends at 1024.
class Mask {
 public:
  Mask() { CPU_ZERO_S(bytes(), mask_.get()); }
  [[nodiscard]] static std::size_t bytes() { return CPU_ALLOC_SIZE(kMaskCpus); }
  [[nodiscard]] cpu_set_t* get() { return mask_.get(); }
  void add(std::uint32_t cpu) { CPU_SET_S(cpu, bytes(), mask_.get()); }
  [[nodiscard]] bool has(std::uint32_t cpu) const {
    return CPU_ISSET_S(cpu, bytes(), mask_.get()) != 0;
  }

 private:
  struct Free {
    void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
  };
  std::unique_ptr<cpu_set_t, Free> mask_{CPU_ALLOC(kMaskCpus)};
};

Error bad_part(std::string_view part) {
  return invalid_argument("core set '" + std::string(part) +
                          "': expected CPU numbers and ranges below " + std::to_string(kMaskCpus) +
                          ", as in 0-1|2-3 or 0,2|1,3");
}

std::optional<std::uint32_t> parse_cpu(std::string_view text) {
  std::uint32_t cpu = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  if (error != std::errc() || end != text.data() + text.size() || cpu > kMaxCpu) {
    return std::nullopt;
  }
  return cpu;
}

Status add_part(std::string_view part, CpuList& cpus) {
  const std::size_t dash = part.find('-');
  const auto first = parse_cpu(part.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_cpu(part.substr(dash + 1));
  if (!first || !last || *first > *last) {
    return bad_part(part);
  }
  for (std::uint32_t cpu = *first; cpu <= *last; ++cpu) {
    cpus.push_back(cpu);
  }
  return ok();
}

// The piece of `text` before the first separator, which is taken off it; at the end, nothing.
std::optional<std::string_view> next_piece(std::optional<std::string_view>& text, char separator) {
  if (!text) {
    return std::nullopt;
  }
  const std::size_t end = text->find(separator);
  const std::string_view piece = text->substr(0, end);
  text = end == std::string_view::npos ? std::nullopt : std::optional(text->substr(end + 1));
  return piece;
}

Result<CpuList> parse_core_set(std::string_view text) {
  CpuList cpus;
  std::optional<std::string_view> rest = text;
  while (const auto part = next_piece(rest, ',')) {
    PHALANX_RETURN_IF_ERROR(add_part(*part, cpus));
  }
  std::sort(cpus.begin(), cpus.end());
  if (std::adjacent_find(cpus.begin(), cpus.end()) != cpus.end()) {
    return invalid_argument("core set '" + std::string(text) + "' names a CPU twice");
  }
  return cpus;
}

}  // namespace

Result<std::vector<CpuList>> parse_core_sets(std::string_view text) {
  std::vector<CpuList> sets;
  std::optional<std::string_view> rest = text;
  while (const auto piece = next_piece(rest, '|')) {
    PHALANX_TRY(CpuList set, parse_core_set(*piece));
    sets.push_back(std::move(set));
  }
  return sets;
}

std::string format_cpus(const CpuList& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) {
      ++last;
    }
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (last > i) {
      text += "-" + std::to_string(cpus[last]);
    }
    i = last + 1;
  }
  return text;
}

std::string format_core_sets(const std::vector<CpuList>& sets) {
  std::string text;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    text += (i > 0 ? "|" : "") + format_cpus(sets[i]);
  }
  return text;
}

CpuList allowed_cpus() {
  Mask mask;
  CpuList cpus;
  if (::sched_getaffinity(0, Mask::bytes(), mask.get()) != 0) {
    return {0};
  }
  for (std::uint32_t cpu = 0; cpu <= kMaxCpu; ++cpu) {
    if (mask.has(cpu)) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

Status check_core_sets(const std::vector<CpuList>& sets,
                       std::size_t ranks,
                       const CpuList& allowed) {
  if (sets.size() != ranks) {
    return invalid_argument("there are " + std::to_string(sets.size()) + " core sets (" +
                            format_core_sets(sets) + ") for " + std::to_string(ranks) +
                            " ranks; give one set per rank");
  }
  CpuList seen;
  for (const CpuList& set : sets) {
    if (set.empty()) {
      return invalid_argument("a core set is empty; give each rank at least one CPU");
    }
    for (const std::uint32_t cpu : set) {
      if (!std::binary_search(allowed.begin(), allowed.end(), cpu)) {
        return invalid_argument("CPU " + std::to_string(cpu) +
                                " is not one this process may use: " + format_cpus(allowed));
      }
      if (std::find(seen.begin(), seen.end(), cpu) != seen.end()) {
        return invalid_argument("CPU " + std::to_string(cpu) + " stands in two core sets (" +
                                format_core_sets(sets) + ")");
      }
      seen.push_back(cpu);
    }
  }
  return ok();
}

Status pin_current_thread(const CpuList& cpus) {
  Mask mask;
  for (const std::uint32_t cpu : cpus) {
    if (cpu > kMaxCpu) {
      return bad_part(std::to_string(cpu));
    }
    mask.add(cpu);
  }
  const int code = ::pthread_setaffinity_np(::pthread_self(), Mask::bytes(), mask.get());
  if (code != 0) {
    return errno_error("pinning a thread to CPUs " + format_cpus(cpus), code);
  }
  return ok();
}

}  // namespace phalanx::os
