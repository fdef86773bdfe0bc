// SPDX-License-Identifier: Apache-2.0
#include "journal_walk.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <gtest/gtest.h>

#include "phalanx/base/check.h"

namespace phalanx::front {

namespace {

std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e37'79b9'7f4a'7c15;
  value = (value ^ (value >> 30U)) * 0xbf58'476d'1ce4'e5b9;
  value = (value ^ (value >> 27U)) * 0x94d0'49bb'1331'11eb;
  return value ^ (value >> 31U);
}

// Without memory of its own: it runs in children of a process that may have threads.
void fill(std::uint64_t connection, Direction direction, std::uint64_t begin, std::span<char> out) {
  const std::uint64_t seed = mixed(connection * 2 + static_cast<std::uint64_t>(direction));
  for (std::size_t i = 0; i < out.size();) {
    const std::uint64_t at = begin + i;
    const std::uint64_t word = mixed(seed + at / 8);
    std::array<char, 8> bytes{};
    std::memcpy(bytes.data(), &word, bytes.size());
    const std::size_t from = at % 8;
    const std::size_t count = std::min(bytes.size() - from, out.size() - i);
    std::copy_n(bytes.data() + from, count, out.data() + i);
    i += count;
  }
}

}  // namespace

TestMemory TestMemory::make(std::uint32_t places, std::size_t blocks) {
  TestMemory memory;
  const std::size_t records = wire::journal_record_offset(places);
  memory.bytes = (records + kTestBlockBytes - 1) / kTestBlockBytes * kTestBlockBytes +
                 blocks * kTestBlockBytes;
  memory.places = places;
  auto made = os::Memfd::reserve("journals", memory.bytes);
  PHALANX_CHECK(made.has_value(), "a memfd");
  memory.memfd = std::move(*made);
  auto mapping = memory.memfd.map(os::Access::kReadWrite);
  PHALANX_CHECK(mapping.has_value(), "a mapping");
  const wire::JournalHeader header{
      .magic = wire::kJournalMagic, .format = wire::kJournalFormat, .places = places};
  std::memcpy(mapping->data(), &header, sizeof header);
  return memory;
}

std::unique_ptr<JournalMemory> TestMemory::adopt() const {
  auto adopted = JournalMemory::adopt(os::UniqueFd(::dup(memfd.fd())), bytes, places);
  PHALANX_CHECK(adopted.has_value(), "memory for journals");
  return std::move(*adopted);
}

Result<http::Resumption> read_left(int fd,
                                   std::uint32_t place,
                                   std::uint64_t connection,
                                   std::uint64_t received,
                                   std::uint64_t sent) {
  PHALANX_TRY(const LeftJournal journal, LeftJournal::open(fd));
  EXPECT_TRUE(journal.is(fd));
  const auto most = journal.extent(place, connection, received, sent);
  Result<http::Resumption> left = journal.read(place, connection, received, sent);
  EXPECT_TRUE(!left || (most && left->received.size() + left->to_send.size() <= most->bytes));
  return left;
}

std::string stream_bytes(std::uint64_t connection,
                         Direction direction,
                         std::uint64_t begin,
                         std::size_t count) {
  std::string bytes(count, '\0');
  fill(connection, direction, begin, bytes);
  return bytes;
}

JournalWalk::JournalWalk(JournalMemory& memory, std::span<Truth> truth, bool memory_is_short)
    : memory_(memory),
      truth_(truth),
      memory_is_short_(memory_is_short),
      connections_(truth.size()) {}

void JournalWalk::open(std::size_t place) {
  Truth& truth = truth_[place];
  Connection& connection = connections_[place];
  const std::uint64_t number = next_number_++;
  truth.connection = number;
  truth.received = number * 1000;
  truth.sent = number * 100;
  truth.publications = 0;
  connection.number = number;
  connection.begin = truth.received;
  connection.rendered = truth.sent;
  connection.published = truth.sent;
  connection.journal = memory_.open(
      static_cast<std::uint32_t>(place), number, connection.begin, connection.rendered);
}

void JournalWalk::close(std::size_t place) {
  truth_[place].kept = false;
  connections_[place].journal.reset();
}

void JournalWalk::receive(std::size_t place, std::size_t count) {
  Truth& truth = truth_[place];
  Connection& connection = connections_[place];
  while (count > 0) {
    const std::span<char> room = connection.journal->room();
    if (room.empty()) {
      return;
    }
    truth.kept = !memory_is_short_;
    const std::size_t some = std::min(count, room.size());
    fill(connection.number, Direction::kIn, truth.received, room.first(some));
    truth.received += some;
    connection.journal->received(some);
    count -= some;
  }
}

// As the pieces of an answer: each of them is rendered on its own.
void JournalWalk::render(std::size_t place, std::size_t count) {
  Connection& connection = connections_[place];
  std::array<char, 5000> bytes{};
  while (count > 0) {
    const std::span<char> piece = std::span(bytes).first(std::min(count, bytes.size()));
    fill(connection.number, Direction::kOut, connection.rendered, piece);
    connection.journal->append({piece.data(), piece.size()}, truth_[place].sent);
    connection.rendered += piece.size();
    count -= piece.size();
  }
}

void JournalWalk::publish(std::size_t place, std::size_t read) {
  Truth& truth = truth_[place];
  Connection& connection = connections_[place];
  connection.begin += std::min<std::uint64_t>(read, unread(place));
  const std::uint64_t count = truth.publications + 1;
  http::ConnectionState state;
  state.stage = static_cast<http::Stage>(count % 4);
  state.ordinal = static_cast<std::uint32_t>(count);
  state.request_begin = connection.begin;
  state.request_end = truth.received;
  state.notes = {connection.rendered, count, connection.number, 0};
  connection.journal->publish(state, truth.sent);
  truth.publications = count;
  if (!connection.journal->lost()) {
    truth.kept = !memory_is_short_;
    connection.published = connection.rendered;
  }
}

void JournalWalk::send(std::size_t place, std::size_t count) {
  truth_[place].sent +=
      std::min<std::uint64_t>(count, connections_[place].published - truth_[place].sent);
}

std::size_t JournalWalk::unread(std::size_t place) const {
  return truth_[place].received - connections_[place].begin;
}

void JournalWalk::random_step(std::uint64_t random) {
  random = mixed(random);
  const auto draw = [&random](std::uint64_t bound) {
    const std::uint64_t drawn = random % bound;
    random /= bound;
    return drawn;
  };
  const std::size_t place = draw(truth_.size());
  const std::size_t count = 1 + (draw(8) == 0 ? draw(100'000) : draw(300));
  if (connections_[place].journal == nullptr) {
    open(place);
    return;
  }
  switch (draw(16)) {
    case 0:
      close(place);
      break;
    case 1:
    case 2:
    case 3:
    case 4:
      receive(place, count);
      break;
    case 5:
    case 6:
      publish(place, unread(place));
      break;
    case 7:
    case 8:
      publish(place, count);
      break;
    case 9:
    case 10:
      send(place, count);
      break;
    default:
      render(place, count);
      publish(place, 0);
      send(place, draw(4) == 0 ? count : count * 1000);
  }
}

std::optional<http::Resumption> read_and_compare(int fd,
                                                 std::size_t place,
                                                 const Truth& truth,
                                                 std::string* problem) {
  const bool kept = truth.kept;
  auto left = read_left(
      fd, static_cast<std::uint32_t>(place), truth.connection, truth.received, truth.sent);
  const auto say = [&](const std::string& what) {
    *problem += "connection " + std::to_string(truth.connection) + ", publication " +
                std::to_string(truth.publications) + ": " + what + "\n";
  };
  if (!left) {
    if (kept) {
      say(left.error().to_string());
    }
    return std::nullopt;
  }
  const http::ConnectionState& state = left->state;
  const std::uint64_t published = state.notes[1];
  const std::uint64_t rendered = published == 0 ? truth.sent.load() : state.notes[0];
  if (published != truth.publications && published != truth.publications + 1) {
    say("publication " + std::to_string(published) + " is what is left");
  }
  if (state.ordinal != published || (published != 0 && state.notes[2] != truth.connection)) {
    say("a state of several publications");
  }
  if (left->received != stream_bytes(truth.connection,
                                     Direction::kIn,
                                     state.request_begin,
                                     truth.received - state.request_begin)) {
    say("other bytes were received");
  }
  if (left->to_send.size() != rendered - truth.sent ||
      left->to_send !=
          stream_bytes(truth.connection, Direction::kOut, truth.sent, left->to_send.size())) {
    say("other bytes were rendered");
  }
  return std::move(*left);
}

}  // namespace phalanx::front
