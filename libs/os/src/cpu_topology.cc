// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/cpu_topology.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "phalanx/base/check.h"

#include "proc_files.h"

namespace phalanx::os {
namespace {

constexpr std::uint32_t kMaxNodes = 1024;

// A list of CPUs as the kernel writes it: "0-3,8", and a line's end.
std::optional<CpuList> read_cpu_list(const std::string& path) {
  std::string text = read_small_file(path).value_or("");
  text.erase(text.find_last_not_of(" \n") + 1);
  const auto sets = parse_core_sets(text);
  return sets && sets->size() == 1 ? std::optional(sets->front()) : std::nullopt;
}

CpuList online_nodes(const std::string& sysfs) {
  return read_cpu_list(sysfs + "/node/online").value_or(CpuList());
}

std::map<std::uint32_t, std::uint32_t> nodes_by_cpu(const std::string& sysfs) {
  std::map<std::uint32_t, std::uint32_t> nodes;
  for (const std::uint32_t node : online_nodes(sysfs)) {
    if (node >= kMaxNodes) {
      break;
    }
    const std::string path = sysfs + "/node/node" + std::to_string(node) + "/cpulist";
    for (const std::uint32_t cpu : read_cpu_list(path).value_or(CpuList())) {
      nodes[cpu] = node;
    }
  }
  return nodes;
}

// The first CPU of each core, those of a node together.
CpuTopology first_of_cores(CpuTopology places) {
  const auto by_core = [](const CpuPlace& place) {
    return std::tuple(place.node, place.core, place.cpu);
  };
  std::sort(places.begin(), places.end(), [&](const CpuPlace& a, const CpuPlace& b) {
    return by_core(a) < by_core(b);
  });
  const auto same = [](const CpuPlace& a, const CpuPlace& b) {
    return a.node == b.node && a.core == b.core;
  };
  places.erase(std::unique(places.begin(), places.end(), same), places.end());
  return places;
}

// Contiguous runs, as equal as can be.
void add_runs(std::span<const CpuPlace> cores, std::size_t ranks, std::vector<CpuList>* sets) {
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    CpuList set;
    const std::size_t end = (rank + 1) * cores.size() / ranks;
    for (std::size_t i = rank * cores.size() / ranks; i < end; ++i) {
      set.push_back(cores[i].cpu);
    }
    std::sort(set.begin(), set.end());
    sets->push_back(std::move(set));
  }
}

std::vector<std::span<const CpuPlace>> nodes_of(std::span<const CpuPlace> cores) {
  std::vector<std::span<const CpuPlace>> nodes;
  while (!cores.empty()) {
    const auto end = std::find_if(cores.begin(), cores.end(), [&](const CpuPlace& place) {
      return place.node != cores.front().node;
    });
    const auto count = static_cast<std::size_t>(end - cores.begin());
    nodes.push_back(cores.first(count));
    cores = cores.subspan(count);
  }
  return nodes;
}

// Ranks of nodes that each have as many; none where that would leave a rank of a replica with fewer
// cores than the others.
std::vector<CpuList> sets_within_nodes(std::span<const CpuPlace> cores, std::size_t ranks) {
  const auto nodes = nodes_of(cores);
  const bool even = std::all_of(nodes.begin(), nodes.end(), [&](std::span<const CpuPlace> node) {
    return node.size() == nodes.front().size();
  });
  std::vector<CpuList> sets;
  if (!even || ranks % nodes.size() != 0) {
    return sets;
  }
  for (const std::span<const CpuPlace> node : nodes) {
    add_runs(node, ranks / nodes.size(), &sets);
  }
  return sets;
}

}  // namespace

CpuTopology read_cpu_topology(const CpuList& cpus, const std::string& sysfs) {
  const std::map<std::uint32_t, std::uint32_t> nodes = nodes_by_cpu(sysfs);
  CpuTopology places;
  for (const std::uint32_t cpu : cpus) {
    const std::string path =
        sysfs + "/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list";
    const CpuList siblings = read_cpu_list(path).value_or(CpuList{cpu});
    const auto node = nodes.find(cpu);
    places.push_back({cpu, siblings.front(), node == nodes.end() ? 0 : node->second});
  }
  return places;
}

NodeList nodes_near(const CpuList& cpus, const std::string& sysfs) {
  if (online_nodes(sysfs).size() < 2) {
    return {};
  }
  const std::map<std::uint32_t, std::uint32_t> by_cpu = nodes_by_cpu(sysfs);
  std::set<std::uint32_t> nodes;
  for (const std::uint32_t cpu : cpus) {
    if (const auto at = by_cpu.find(cpu); at != by_cpu.end()) {
      nodes.insert(at->second);
    }
  }
  return {nodes.begin(), nodes.end()};
}

std::vector<CpuList> default_core_sets(std::size_t ranks, const CpuTopology& topology) {
  PHALANX_CHECK(ranks > 0 && !topology.empty(), "core sets need ranks and CPUs");
  const CpuTopology cores = first_of_cores(topology);
  if (cores.size() < ranks) {
    return std::vector<CpuList>(ranks);
  }
  std::vector<CpuList> sets = sets_within_nodes(cores, ranks);
  if (sets.empty()) {
    add_runs(cores, ranks, &sets);
  }
  return sets;
}

}  // namespace phalanx::os
