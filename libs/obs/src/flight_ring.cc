// SPDX-License-Identifier: Apache-2.0
#include "phalanx/obs/flight_ring.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

namespace phalanx::obs {

namespace {

// The ring is a stream of lines, each ended by '\n', written round and round; the word in front of
// it counts the bytes ever written. A reader takes what lies between the count and one ring length
// before it, and drops the first piece, which has been overwritten in part.
constexpr std::size_t kHeaderBytes = sizeof(std::uint64_t);
constexpr std::size_t kSmallest = 64;

std::atomic<std::uint64_t>& written(std::span<std::byte> memory) {
  static_assert(sizeof(std::atomic<std::uint64_t>) == kHeaderBytes);
  return *std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(memory.data()));
}

}  // namespace

std::size_t FlightRing::capacity() const {
  return memory_.size() < kSmallest ? 0 : memory_.size() - kHeaderBytes;
}

void FlightRing::append(std::string_view line) {
  const std::size_t room = capacity();
  if (room == 0) {
    return;
  }
  line = line.substr(0, room / 4 - 1);
  std::atomic<std::uint64_t>& count = written(memory_);
  const std::uint64_t start = count.load(std::memory_order_relaxed);
  std::byte* const ring = memory_.data() + kHeaderBytes;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    const char raw = i < line.size() ? line[i] : '\n';
    const char letter = i < line.size() && (raw == '\n' || raw == '\0') ? ' ' : raw;
    ring[(start + i) % room] = static_cast<std::byte>(letter);
  }
  count.store(start + line.size() + 1, std::memory_order_release);
}

std::vector<std::string> FlightRing::lines(std::size_t limit) const {
  const std::size_t room = capacity();
  std::vector<std::string> found;
  if (room == 0) {
    return found;
  }
  const std::uint64_t end = written(memory_).load(std::memory_order_acquire);
  const std::uint64_t length = std::min<std::uint64_t>(end, room);
  std::string text(length, '\0');
  for (std::uint64_t i = 0; i < length; ++i) {
    text[i] = static_cast<char>(memory_[kHeaderBytes + (end - length + i) % room]);
  }
  std::size_t begin = end > room ? text.find('\n') + 1 : 0;
  while (begin < text.size()) {
    const std::size_t stop = text.find('\n', begin);
    if (stop == std::string::npos) {
      break;
    }
    // Bytes that no log writes come from memory that was damaged: the line is worth nothing.
    const std::string line = text.substr(begin, stop - begin);
    if (line.find('\0') == std::string::npos) {
      found.push_back(line);
    }
    begin = stop + 1;
  }
  if (found.size() > limit) {
    found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(limit));
  }
  return found;
}

}  // namespace phalanx::obs
