// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/front/journal_memory.h"
#include "phalanx/front/left_journal.h"

namespace phalanx::front {

inline constexpr std::size_t kTestBlockBytes = 32768;
inline constexpr std::size_t kTestPayloadBytes = kTestBlockBytes - 8;

// A memfd as the leader makes it, with so many blocks behind the records.
struct TestMemory {
  os::Memfd memfd;
  std::size_t bytes = 0;
  std::uint32_t places = 0;

  static TestMemory make(std::uint32_t places, std::size_t blocks);
  [[nodiscard]] std::unique_ptr<JournalMemory> adopt() const;
};

// What is left in the memory of that descriptor.
Result<http::Resumption> read_left(int fd,
                                   std::uint32_t place,
                                   std::uint64_t connection,
                                   std::uint64_t received,
                                   std::uint64_t sent);

// The bytes of a connection, from an offset on; another stream for each direction.
enum class Direction : std::uint8_t { kIn, kOut };
std::string stream_bytes(std::uint64_t connection,
                         Direction direction,
                         std::uint64_t begin,
                         std::size_t count);

// What the kernel and the leader know of a place, in memory that a child shares with its parent.
struct Truth {
  std::atomic<std::uint64_t> connection = 0;
  std::atomic<std::uint64_t> received = 0;
  std::atomic<std::uint64_t> sent = 0;
  std::atomic<std::uint64_t> publications = 0;
  std::atomic<bool> kept = false;  // reading must succeed
};

// Works with journals as a server does, one for each place, and says in `truth` what it has done:
// of bytes behind the deed, of what is kept around it.
class JournalWalk {
 public:
  // Where memory is short journals are lost, and nothing has to be kept.
  JournalWalk(JournalMemory& memory, std::span<Truth> truth, bool memory_is_short = false);

  void open(std::size_t place);
  void close(std::size_t place);
  void receive(std::size_t place, std::size_t count);
  void render(std::size_t place, std::size_t count);
  // Having read so many more of the bytes that were received.
  void publish(std::size_t place, std::size_t read);
  void send(std::size_t place, std::size_t count);  // at most what is published
  void random_step(std::uint64_t random);

  [[nodiscard]] std::size_t unread(std::size_t place) const;
  [[nodiscard]] http::Journal& journal(std::size_t place) { return *connections_[place].journal; }

 private:
  struct Connection {
    std::unique_ptr<http::Journal> journal;
    std::uint64_t number = 0;
    std::uint64_t begin = 0;  // of what is not read
    std::uint64_t rendered = 0;
    std::uint64_t published = 0;
  };

  JournalMemory& memory_;
  std::span<Truth> truth_;
  bool memory_is_short_;
  std::vector<Connection> connections_;
  std::uint64_t next_number_ = 1;
};

// Reads what is left of a place and compares it with the truth. Gives what was found, nothing where
// nothing was found and nothing had to be; a difference is put into *problem.
std::optional<http::Resumption> read_and_compare(int fd,
                                                 std::size_t place,
                                                 const Truth& truth,
                                                 std::string* problem);

}  // namespace phalanx::front
