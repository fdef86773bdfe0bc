// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/machine.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/base/check.h"

#include "proc_files.h"

namespace phalanx::os {

namespace {

constexpr std::uint64_t kKilobyte = 1024;

// The value of "key value" at the start of a line.
std::optional<std::uint64_t> value_of(const std::string& text, const std::string& key) {
  const std::size_t at = ("\n" + text).find("\n" + key + " ");
  if (at == std::string::npos) {
    return std::nullopt;
  }
  const std::size_t begin = at + key.size() + 1;
  return whole_number(text.substr(begin, text.find('\n', begin) - begin));
}

// Room below one memory limit; nothing without a limit. Page cache that the kernel would drop
// counts as room, as it does in MemAvailable.
std::optional<std::uint64_t> room_below(const std::string& folder,
                                        const std::string& limit_file,
                                        const std::string& usage_file,
                                        std::span<const char* const> cache_keys) {
  const auto limit = whole_number(read_small_file(folder + limit_file).value_or(""));
  const auto usage = whole_number(read_small_file(folder + usage_file).value_or(""));
  if (!limit || !usage) {
    return std::nullopt;
  }
  std::uint64_t used = *usage;
  const std::string stat = read_small_file(folder + "/memory.stat").value_or("");
  for (const char* const key : cache_keys) {
    used -= std::min(used, value_of(stat, key).value_or(0));
  }
  return *limit > used ? *limit - used : 0;
}

// Where the memory of this process is limited and counted.
struct CgroupFiles {
  const char* controllers;  // as /proc/self/cgroup has them between two ':'
  const char* root;
  std::array<const char*, 2> limits;  // beyond one processes are ended, beyond another held up
  const char* usage;
  std::array<const char*, 2> cache_keys;  // in memory.stat
  const char* kills;                      // has oom_kill
};
constexpr CgroupFiles kCgroups[] = {{"",
                                     "/sys/fs/cgroup",
                                     {"/memory.max", "/memory.high"},
                                     "/memory.current",
                                     {"inactive_file", "active_file"},
                                     "/memory.events"},
                                    {"memory",
                                     "/sys/fs/cgroup/memory",
                                     {"/memory.limit_in_bytes", "/memory.limit_in_bytes"},
                                     "/memory.usage_in_bytes",
                                     {"total_inactive_file", "total_active_file"},
                                     "/memory.oom_control"}};

// The folder of this process's cgroup; the root where it is not told.
std::string cgroup_folder(const CgroupFiles& files) {
  const std::string groups = read_small_file("/proc/self/cgroup").value_or("");
  const std::string key = std::string(":") + files.controllers + ":/";
  const std::size_t at = groups.find(key);
  std::string path;
  if (at != std::string::npos) {
    const std::size_t begin = at + key.size() - 1;
    path = groups.substr(begin, groups.find('\n', begin) - begin);
  }
  return files.root + (path == "/" ? "" : path);
}

// The tightest limit among this process's memory cgroup and those above it. In a container the
// folder may be one that is not there, and the root its own.
std::uint64_t cgroup_room() {
  std::uint64_t room = UINT64_MAX;
  for (const CgroupFiles& files : kCgroups) {
    const std::size_t root = std::string_view(files.root).size();
    for (std::string folder = cgroup_folder(files);; folder.resize(folder.rfind('/'))) {
      for (const char* const limit : files.limits) {
        const auto found = room_below(folder, limit, files.usage, files.cache_keys);
        room = std::min(room, found.value_or(UINT64_MAX));
      }
      if (folder.size() <= root) {
        break;
      }
    }
  }
  return room;
}

// Where /proc tells nothing (systemd: ProcSubset=pid): what nobody uses, without the page cache
// that the kernel would drop.
Result<std::uint64_t> free_memory_bytes() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) {
    return errno_error("asking for the free memory", errno);
  }
  return (std::uint64_t{info.freeram} + info.bufferram) * info.mem_unit;
}

}  // namespace

Result<std::uint64_t> available_memory_bytes() {
  const std::string text = read_small_file("/proc/meminfo").value_or("");
  if (const auto available = number_after(text, "MemAvailable")) {
    return std::min(*available * kKilobyte, cgroup_room());
  }
  PHALANX_TRY(const std::uint64_t free, free_memory_bytes());
  return std::min(free, cgroup_room());
}

std::optional<std::uint64_t> out_of_memory_kills() {
  for (const CgroupFiles& files : kCgroups) {
    for (const std::string& folder : {cgroup_folder(files), std::string(files.root)}) {
      const std::string text = read_small_file(folder + files.kills).value_or("");
      if (const auto count = value_of(text, "oom_kill")) {
        return count;
      }
    }
  }
  return std::nullopt;
}

Result<std::uint64_t> raise_open_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return errno_error("reading the limit of open files", errno);
  }
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
      return errno_error("raising the limit of open files", errno);
    }
  }
  return std::uint64_t{limit.rlim_cur};
}

Status restrict_process(bool core_dumps) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return errno_error("giving up the right to gain rights", errno);
  }
  rlimit limit{};
  if (core_dumps || ::getrlimit(RLIMIT_CORE, &limit) != 0) {
    return ok();
  }
  limit.rlim_cur = std::min<rlim_t>(1, limit.rlim_max);
  if (::setrlimit(RLIMIT_CORE, &limit) != 0) {
    return errno_error("limiting core dumps", errno);
  }
  return ok();
}

Result<ProcessLimits> process_limits() {
  ProcessLimits result;
  const std::pair<__rlimit_resource, std::uint64_t*> fields[] = {
      {RLIMIT_NOFILE, &result.open_files},
      {RLIMIT_AS, &result.address_space_bytes},
      {RLIMIT_STACK, &result.stack_bytes},
      {RLIMIT_FSIZE, &result.file_bytes}};
  for (const auto& [resource, field] : fields) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) {
      return errno_error("reading the limits of this process", errno);
    }
    *field = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : std::uint64_t{limit.rlim_cur};
  }
  result.files_in_use = open_descriptors();
  return result;
}

std::size_t open_descriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (folder == nullptr) {
    return 0;
  }
  std::size_t count = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this call's own
  while (const dirent* entry = ::readdir(folder.get())) {
    count += entry->d_name[0] != '.' ? 1 : 0;
  }
  return count - 1;  // the folder itself
}

void random_bytes(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0) {
      PHALANX_CHECK(errno == EINTR, "getrandom fails on no supported kernel");
      continue;
    }
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  random_bytes(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace phalanx::os
