// SPDX-License-Identifier: Apache-2.0
#include "phalanx/front/journal_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "journal_walk.h"

namespace phalanx::front {
namespace {

constexpr std::uint64_t kConnection = 7;
constexpr std::size_t kRoomOfABlock = kTestPayloadBytes;

std::string in_bytes(std::uint64_t begin, std::size_t count) {
  return stream_bytes(kConnection, Direction::kIn, begin, count);
}

std::string out_bytes(std::uint64_t begin, std::size_t count) {
  return stream_bytes(kConnection, Direction::kOut, begin, count);
}

// What the socket gives goes where there is room, in as many pieces as that takes.
void receive(http::Journal& journal, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<char> room = journal.room();
    ASSERT_FALSE(room.empty());
    const std::size_t count = std::min(room.size(), bytes.size());
    std::copy_n(bytes.data(), count, room.data());
    journal.received(count);
    bytes.remove_prefix(count);
  }
}

std::size_t touched_pages(const TestMemory& test) {
  struct stat info {};
  EXPECT_EQ(::fstat(test.memfd.fd(), &info), 0);
  return static_cast<std::size_t>(info.st_blocks) * 512 / 4096;
}

// Memory for four connections, and one of them.
class JournalMemoryTest : public testing::Test {
 protected:
  void use(std::size_t blocks, std::uint64_t received = 0, std::uint64_t sent = 0) {
    test_ = TestMemory::make(4, blocks);
    memory_ = test_.adopt();
    journal_ = memory_->open(1, kConnection, received, sent);
    ASSERT_NE(journal_, nullptr);
  }

  Result<http::Resumption> left(std::uint64_t received, std::uint64_t sent) const {
    return read_left(test_.memfd.fd(), 1, kConnection, received, sent);
  }

  std::size_t blocks_in_use() const { return memory_->bytes_in_use() / kTestBlockBytes; }

  TestMemory test_;
  std::unique_ptr<JournalMemory> memory_;
  std::unique_ptr<http::Journal> journal_;
};

TEST_F(JournalMemoryTest, NothingIsLeftBeforeThereIsRoom) {
  use(8, 1000, 50);
  EXPECT_FALSE(left(1000, 50).has_value());
  journal_->append("unpublished", 50);
  EXPECT_FALSE(left(1000, 50).has_value());
}

TEST_F(JournalMemoryTest, WhatTheKernelPutsIntoTheFirstRoomIsFound) {
  use(8, 1000, 50);
  journal_->append("unpublished", 50);
  std::copy_n("abc", 3, journal_->room().data());
  const auto found = left(1003, 50);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->state, http::ConnectionState{.request_begin = 1000});
  EXPECT_EQ(found->received, "abc");
  EXPECT_EQ(found->to_send, "");
}

TEST_F(JournalMemoryTest, EveryFieldOfAStateComesBack) {
  use(8);
  receive(*journal_, in_bytes(0, 500));
  const http::ConnectionState state{.stage = http::Stage::kStreaming,
                                    .keep_alive = false,
                                    .http_1_1 = false,
                                    .chunked = true,
                                    .is_sse = true,
                                    .head_only = true,
                                    .continued = true,
                                    .in_body = true,
                                    .deadline_ms = ~0U,
                                    .ordinal = 3,
                                    .request_begin = 100,
                                    .request_end = 400,
                                    .drawn_id = ~std::uint64_t{0},
                                    .notes = {1, 2, 3, ~std::uint64_t{0}}};
  journal_->publish(state, 0);
  const auto found = left(500, 0);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->state, state);
  EXPECT_EQ(found->received, in_bytes(100, 400));

  const http::ConnectionState plain{.request_begin = 500};
  journal_->publish(plain, 0);
  EXPECT_EQ(left(500, 0)->state, plain);
  static_cast<void>(journal_->room());
  EXPECT_EQ(left(500, 0)->state, plain);
}

TEST_F(JournalMemoryTest, HowMuchIsLeftAndWhetherItsClientWaitsIsKnownBeforeItIsRead) {
  use(8);
  receive(*journal_, in_bytes(0, 500));
  const LeftJournal left = *LeftJournal::open(test_.memfd.fd());
  const auto is_awaited = [&](http::Stage stage) {
    journal_->publish({.stage = stage, .request_begin = 100, .request_end = 500}, 0);
    const auto extent = left.extent(1, kConnection, 500, 0);
    EXPECT_EQ(extent->bytes, 400U);
    return extent->is_awaited;
  };
  EXPECT_FALSE(is_awaited(http::Stage::kReading));
  EXPECT_TRUE(is_awaited(http::Stage::kAwaited));
  EXPECT_TRUE(is_awaited(http::Stage::kStreaming));
  EXPECT_TRUE(is_awaited(http::Stage::kComplete));
  EXPECT_FALSE(left.extent(1, kConnection + 1, 500, 0));
}

TEST_F(JournalMemoryTest, RequestsOfManyBlocksAreKeptAsLongAsTheyAreNeeded) {
  use(16);
  const std::size_t bytes = 4 * kRoomOfABlock;
  receive(*journal_, in_bytes(0, bytes));
  EXPECT_EQ(blocks_in_use(), 4U);
  EXPECT_EQ(left(bytes, 0)->received, in_bytes(0, bytes));
  for (const std::size_t begin : {std::size_t{1},
                                  kRoomOfABlock - 1,
                                  kRoomOfABlock,
                                  kRoomOfABlock + 1,
                                  3 * kRoomOfABlock,
                                  bytes - 1,
                                  bytes}) {
    journal_->publish({.request_begin = begin}, 0);
    EXPECT_EQ(left(bytes, 0)->received, in_bytes(begin, bytes - begin)) << begin;
    EXPECT_EQ(blocks_in_use(), begin == bytes ? 0 : 4 - begin / kRoomOfABlock) << begin;
  }
  receive(*journal_, in_bytes(bytes, 10));
  EXPECT_EQ(left(bytes + 10, 0)->received, in_bytes(bytes, 10));
}

TEST_F(JournalMemoryTest, RoomIsWhereTheNextBytesAreLookedFor) {
  use(8);
  receive(*journal_, in_bytes(0, kRoomOfABlock - 1));
  EXPECT_EQ(journal_->room().size(), 1U);
  receive(*journal_, in_bytes(kRoomOfABlock - 1, 1));
  const std::span<char> room = journal_->room();
  EXPECT_EQ(room.size(), kRoomOfABlock);
  EXPECT_EQ(journal_->room().data(), room.data());
  std::copy_n(in_bytes(kRoomOfABlock, 5).data(), 5, room.data());
  EXPECT_EQ(left(kRoomOfABlock + 5, 0)->received, in_bytes(0, kRoomOfABlock + 5));
}

TEST_F(JournalMemoryTest, WhatIsRenderedIsLeftFromItsPublicationUntilItIsSent) {
  use(8, 0, 50);
  journal_->publish({}, 50);
  journal_->append(out_bytes(50, 100), 50);
  EXPECT_EQ(left(0, 50)->to_send, "");
  journal_->publish({.ordinal = 1}, 50);
  journal_->append(out_bytes(150, 100), 60);
  EXPECT_EQ(left(0, 50)->to_send, out_bytes(50, 100));
  EXPECT_EQ(left(0, 149)->to_send, out_bytes(149, 1));
  EXPECT_EQ(left(0, 150)->to_send, "");
  EXPECT_FALSE(left(0, 151).has_value());
  journal_->publish({.ordinal = 2}, 60);
  EXPECT_EQ(left(0, 60)->to_send, out_bytes(60, 190));
  journal_->publish({.ordinal = 3}, 250);
  EXPECT_EQ(left(0, 250)->to_send, "");
  EXPECT_EQ(left(0, 250)->state.ordinal, 3U);
  EXPECT_EQ(blocks_in_use(), 0U);
}

TEST_F(JournalMemoryTest, RoomShowsNothingThatWasNotPublished) {
  use(8);
  journal_->append(out_bytes(0, 10), 0);
  journal_->publish({.ordinal = 1}, 0);
  journal_->append(out_bytes(10, 10), 0);
  static_cast<void>(journal_->room());
  EXPECT_EQ(left(0, 0)->to_send, out_bytes(0, 10));
  journal_->publish({.ordinal = 2}, 10);
  journal_->append(out_bytes(20, 10), 20);
  static_cast<void>(journal_->room());
  EXPECT_EQ(left(0, 10)->to_send, out_bytes(10, 10));
}

TEST_F(JournalMemoryTest, AStreamThatIsTakenAtOnceTouchesTwoBlocksWhereTheyBegin) {
  use(8);
  std::uint64_t end = 0;
  std::uint64_t before = 0;
  for (std::uint32_t i = 1; i <= 5000; ++i) {
    const std::size_t count = i % 300 + 1;
    journal_->append(out_bytes(end, count), end);
    if (i > 1) {
      ASSERT_EQ(left(0, before)->to_send, out_bytes(before, end - before)) << "what is published";
    }
    journal_->publish({.ordinal = i}, end);
    ASSERT_EQ(left(0, end)->to_send, out_bytes(end, count));
    ASSERT_EQ(left(0, end)->state.ordinal, i);
    before = std::exchange(end, end + count);
  }
  EXPECT_EQ(blocks_in_use(), 1U);
  EXPECT_EQ(touched_pages(test_), 1 + 1 + 2U) << "header, record, blocks";
}

TEST_F(JournalMemoryTest, AnswersOfManyBlocksAreFreedAsTheyAreSent) {
  use(8);
  const std::size_t bytes = 3 * kRoomOfABlock + 10;
  journal_->append(out_bytes(0, bytes), 0);
  journal_->publish({}, 0);
  for (const std::size_t sent : {std::size_t{0}, kRoomOfABlock, bytes - 1, bytes}) {
    EXPECT_EQ(left(0, sent)->to_send, out_bytes(sent, bytes - sent)) << "not published";
  }
  for (const std::size_t sent :
       {kRoomOfABlock - 1, kRoomOfABlock, 2 * kRoomOfABlock + 1, 3 * kRoomOfABlock, bytes}) {
    journal_->publish({}, sent);
    EXPECT_EQ(left(0, sent)->to_send, out_bytes(sent, bytes - sent)) << sent;
    EXPECT_EQ(blocks_in_use(), sent == bytes ? 0 : 4 - sent / kRoomOfABlock) << sent;
  }
}

TEST_F(JournalMemoryTest, APlaceIsOneConnectionsAtATime) {
  use(4);
  EXPECT_EQ(memory_->open(1, 8, 0, 0), nullptr);
  EXPECT_EQ(memory_->open(4, 8, 0, 0), nullptr);
  EXPECT_EQ(memory_->open(wire::kNoJournalPlace, 8, 0, 0), nullptr);
  receive(*journal_, in_bytes(0, 2 * kRoomOfABlock));
  journal_->append(out_bytes(0, 100), 0);
  journal_->publish({}, 0);
  EXPECT_EQ(blocks_in_use(), 3U);
  journal_.reset();
  EXPECT_EQ(blocks_in_use(), 0U);
  EXPECT_FALSE(left(2 * kRoomOfABlock, 0).has_value());

  journal_ = memory_->open(1, 8, 0, 0);
  EXPECT_FALSE(read_left(test_.memfd.fd(), 1, 8, 0, 0).has_value());
  receive(*journal_, "next");
  EXPECT_FALSE(left(4, 0).has_value());
  EXPECT_EQ(read_left(test_.memfd.fd(), 1, 8, 4, 0)->received, "next");
}

TEST_F(JournalMemoryTest, AJournalIsLostWhereMemoryIsShortAndNoOther) {
  use(2);
  auto other = memory_->open(0, 8, 0, 0);
  receive(*other, "other");
  receive(*journal_, in_bytes(0, kRoomOfABlock));
  EXPECT_FALSE(journal_->lost());
  EXPECT_TRUE(journal_->room().empty());
  EXPECT_TRUE(journal_->lost());
  EXPECT_EQ(memory_->lost(), 1U);
  EXPECT_FALSE(left(kRoomOfABlock, 0).has_value());
  journal_->append("more", 0);
  journal_->publish({.request_begin = 5}, 0);
  journal_->received(1);
  EXPECT_TRUE(journal_->room().empty());
  EXPECT_FALSE(left(kRoomOfABlock, 0).has_value());
  EXPECT_EQ(blocks_in_use(), 1U);

  other->append(std::string(kRoomOfABlock + 1, 'x'), 0);
  EXPECT_TRUE(other->lost());
  EXPECT_EQ(blocks_in_use(), 0U);
  journal_.reset();
  journal_ = memory_->open(1, kConnection, 0, 0);
  receive(*journal_, in_bytes(0, 2 * kRoomOfABlock));
  EXPECT_EQ(left(2 * kRoomOfABlock, 0)->received, in_bytes(0, 2 * kRoomOfABlock));
}

TEST_F(JournalMemoryTest, AConnectionGoesOnInTheMemoryOfTheNextFront) {
  use(8);
  receive(*journal_, in_bytes(0, 2 * kRoomOfABlock));
  journal_->append(out_bytes(0, 2 * kRoomOfABlock), 0);
  journal_->publish({.stage = http::Stage::kStreaming, .request_begin = 9, .request_end = 99}, 0);
  const std::uint64_t received = 2 * kRoomOfABlock;
  const std::uint64_t sent = 70;
  const auto found = left(received, sent);
  ASSERT_TRUE(found.has_value());

  const TestMemory next = TestMemory::make(2, 6);
  const auto memory = next.adopt();
  EXPECT_EQ(memory->go_on(0, kConnection, *found, received + 1, sent), nullptr);
  EXPECT_EQ(memory->go_on(2, kConnection, *found, received, sent), nullptr);
  auto journal = memory->go_on(0, kConnection, *found, received, sent);
  ASSERT_NE(journal, nullptr);
  receive(*journal, in_bytes(received, 10));
  const auto again = read_left(next.memfd.fd(), 0, kConnection, received + 10, sent + 5);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->state, found->state);
  EXPECT_EQ(again->received, found->received + in_bytes(received, 10));
  EXPECT_EQ(again->to_send, found->to_send.substr(5));

  const auto short_of = memory->go_on(1, kConnection, *found, received, sent);
  ASSERT_NE(short_of, nullptr);
  EXPECT_TRUE(short_of->lost());
  EXPECT_FALSE(read_left(next.memfd.fd(), 1, kConnection, received, sent).has_value());
  journal.reset();
  EXPECT_EQ(memory->bytes_in_use(), 0U);
}

TEST_F(JournalMemoryTest, NumbersThatDoNotFitAreRefused) {
  use(3, 100, 50);
  receive(*journal_, in_bytes(100, 20));
  journal_->append(out_bytes(50, 20), 50);
  journal_->publish({.request_begin = 110}, 50);
  EXPECT_TRUE(left(120, 50).has_value());
  EXPECT_FALSE(left(109, 50).has_value());
  EXPECT_FALSE(left(100 + kRoomOfABlock + 1, 50).has_value()) << "beyond the chain";
  EXPECT_FALSE(left(~std::uint64_t{0}, 50).has_value());
  EXPECT_FALSE(left(120, 49).has_value());
  EXPECT_FALSE(left(120, 71).has_value());
  EXPECT_FALSE(left(120, ~std::uint64_t{0}).has_value());
  const int fd = test_.memfd.fd();
  EXPECT_FALSE(read_left(fd, 0, kConnection, 120, 50).has_value());
  EXPECT_FALSE(read_left(fd, 4, kConnection, 120, 50).has_value());
  EXPECT_FALSE(read_left(fd, wire::kNoJournalPlace, kConnection, 120, 50).has_value());
  EXPECT_FALSE(read_left(fd, 1, 8, 120, 50).has_value());
  EXPECT_FALSE(read_left(fd, 0, 0, 120, 50).has_value());
  EXPECT_FALSE(read_left(-1, 1, kConnection, 120, 50).has_value());
  journal_->publish({.stage = http::Stage::kAwaited, .request_begin = 110, .request_end = 121}, 50);
  EXPECT_FALSE(left(120, 50).has_value()) << "a request that ends behind what was received";
}

TEST(JournalAdoption, TakesOnlyTheMemoryThatWasAnnounced) {
  const TestMemory test = TestMemory::make(4, 1);
  const auto adopted = [&](const TestMemory& memory, std::size_t bytes, std::uint32_t places) {
    return JournalMemory::adopt(os::UniqueFd(::dup(memory.memfd.fd())), bytes, places).has_value();
  };
  EXPECT_TRUE(adopted(test, test.bytes, 4));
  EXPECT_FALSE(adopted(test, test.bytes, 5));
  EXPECT_FALSE(adopted(test, test.bytes + kTestBlockBytes, 4));
  EXPECT_FALSE(adopted(test, test.bytes, wire::kNoJournalPlace));
  const TestMemory without_blocks = TestMemory::make(4, 0);
  EXPECT_FALSE(adopted(without_blocks, without_blocks.bytes, 4));
  for (const std::size_t offset : {std::size_t{0}, std::size_t{8}}) {  // magic, format
    const TestMemory other = TestMemory::make(4, 1);
    other.memfd.map(os::Access::kReadWrite)->data()[offset] ^= std::byte{1};
    EXPECT_FALSE(adopted(other, other.bytes, 4)) << offset;
    EXPECT_FALSE(read_left(other.memfd.fd(), 1, kConnection, 0, 0).has_value());
  }
}

TEST(JournalPages, ABurstGivesItsPagesBackInPieces) {
  constexpr std::size_t kBurst = 4096;
  const TestMemory test = TestMemory::make(2, kBurst + 1);
  const auto memory = test.adopt();
  const auto touched = [&] { return touched_pages(test); };  // one of each block
  auto burst = memory->open(0, 1, 0, 0);
  for (std::size_t i = 0; i < kBurst; ++i) {
    burst->received(burst->room().size());
  }
  EXPECT_GE(touched(), kBurst);
  burst.reset();
  const std::size_t after = touched();
  EXPECT_GE(after, kBurst - 64) << "all at once";

  auto other = memory->open(0, 2, 0, 0);
  for (std::uint64_t i = 1; i <= 200; ++i) {
    receive(*other, "x");
    other->publish({.request_begin = i}, 0);
  }
  EXPECT_LE(touched(), 2048 + 16U);
  for (std::size_t i = 0; i < kBurst; ++i) {
    const std::string bytes(kRoomOfABlock, static_cast<char>(i));
    std::span<char> room = other->room();
    ASSERT_EQ(room.size(), kRoomOfABlock);
    room.front() = static_cast<char>(i);
    other->received(room.size());
  }
  const auto found = read_left(test.memfd.fd(), 0, 2, 200 + kBurst * kRoomOfABlock, 0);
  ASSERT_TRUE(found.has_value());
  for (std::size_t i = 0; i < kBurst; ++i) {
    ASSERT_EQ(found->received[i * kRoomOfABlock], static_cast<char>(i));
  }
}

TEST(JournalPages, WhatABurstHasLeftIsGivenBackWhereNobodyUsesIt) {
  constexpr std::size_t kBurst = 4096;
  constexpr std::size_t kInUse = 300;
  const TestMemory test = TestMemory::make(2, kBurst + kInUse + 2);
  const auto memory = test.adopt();
  auto stays = memory->open(1, 2, 0, 0);
  for (std::size_t i = 0; i < kInUse; ++i) {
    stays->received(stays->room().size());
  }
  auto burst = memory->open(0, 1, 0, 0);
  for (std::size_t i = 0; i < kBurst; ++i) {
    burst->received(burst->room().size());
  }
  burst.reset();
  const auto give_back = [&] {
    std::size_t before = touched_pages(test);
    for (int calls = 0; memory->give_back_some(); ++calls) {
      const std::size_t now = touched_pages(test);
      EXPECT_LE(before - now, 16U) << "in pieces";
      before = now;
      ASSERT_LE(calls, 1000);
    }
  };
  memory->end_second();
  give_back();
  EXPECT_GE(touched_pages(test), kInUse + 2048U) << "they were in use a moment ago";
  memory->end_second();
  give_back();
  EXPECT_LE(touched_pages(test), kInUse + 256 + 16U);
  EXPECT_GE(touched_pages(test), kInUse + 256U) << "what is in use stays";
  EXPECT_FALSE(memory->give_back_some());
}

TEST(JournalMarks, AreThoseOfTheThread) {
  const TestMemory test = TestMemory::make(1, 1);
  const auto memory = test.adopt();
  const auto mapping = test.memfd.map(os::Access::kReadOnly);
  const auto& marks = reinterpret_cast<const wire::JournalHeader*>(mapping->data())->marks;
  using Marks = std::array<std::uint64_t, wire::kJournalMarks>;
  memory->mark(2, 9);
  memory->mark(0, 5);
  EXPECT_EQ(marks, (Marks{5, 0, 9}));
  memory->mark(0, 0);
  EXPECT_EQ(marks, (Marks{0, 0, 9}));
}

// Sound journals of four connections, and what becomes of them when words are damaged at random.
class JournalFuzz {
 public:
  JournalFuzz() {
    const auto memory = test_.adopt();
    JournalWalk walk(*memory, truth_);
    for (std::uint64_t step = 0; step < 400; ++step) {
      walk.random_step(step);
    }
    sound_.assign(mapping_.data(), mapping_.data() + mapping_.size());
  }

  // Gives how many places can be read.
  int run(std::uint64_t seed) {
    std::copy(sound_.begin(), sound_.end(), mapping_.data());
    std::mt19937_64 random(seed);
    for (std::uint64_t i = random() % 4; seed > 0 && i < 4; ++i) {
      damage(random);
    }
    int readable = 0;
    for (std::uint32_t place = 0; place < kPlaces; ++place) {
      readable += can_be_read(place) ? 1 : 0;
    }
    return readable;
  }

 private:
  static constexpr std::uint32_t kPlaces = 4;
  static constexpr std::size_t kBlocks = 40;
  static constexpr std::size_t kRecordBytes = 240;

  // A word of the header, of a record or of the head of a block: some bits of it, or all of it.
  void damage(std::mt19937_64& random) {
    std::size_t offset = random() % 2 * 8;
    if (const auto kind = random() % 16; kind > 11) {
      offset = kTestBlockBytes * (1 + random() % kBlocks);
    } else if (kind > 0) {
      offset = wire::journal_record_offset(random() % kPlaces) + random() % (kRecordBytes / 8) * 8;
    }
    std::uint64_t word = 0;
    std::memcpy(&word, mapping_.data() + offset, sizeof word);
    const std::array<std::uint64_t, 8> others{word ^ (std::uint64_t{1} << random() % 64),
                                              word + 1,
                                              word - 1,
                                              random(),
                                              random() % (kBlocks + 2),
                                              word + random() % 100'000,
                                              ~std::uint64_t{0} - random() % 100'000,
                                              0};
    word = others[random() % others.size()];
    std::memcpy(mapping_.data() + offset, &word, sizeof word);
  }

  bool can_be_read(std::uint32_t place) {
    const Truth& truth = truth_[place];
    const auto left =
        read_left(test_.memfd.fd(), place, truth.connection, truth.received, truth.sent);
    if (!left) {
      EXPECT_FALSE(left.error().message().empty());
      return false;
    }
    EXPECT_LE(left->state.stage, http::Stage::kComplete);
    EXPECT_EQ(left->received.size(),
              http::needs_received(left->state) ? truth.received - left->state.request_begin : 0);
    EXPECT_LE(left->to_send.size(), kBlocks * kTestPayloadBytes);
    return true;
  }

  TestMemory test_ = TestMemory::make(kPlaces, kBlocks);
  os::Mapping mapping_ = std::move(*test_.memfd.map(os::Access::kReadWrite));
  std::array<Truth, kPlaces> truth_;
  std::vector<std::byte> sound_;
};

TEST(JournalMemoryFuzz, DamagedMemoryIsRefusedOrReadWithinItsBounds) {
  JournalFuzz fuzz;
  EXPECT_EQ(fuzz.run(0), 4);
  int readable = 0;
  constexpr int kSeeds = 5000;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    readable += fuzz.run(static_cast<std::uint64_t>(seed));
  }
  EXPECT_GT(readable, kSeeds);
  EXPECT_LT(readable, 4 * kSeeds - kSeeds / 2);
}

TEST(JournalMemoryFuzz, NoiseIsRefused) {
  const TestMemory test = TestMemory::make(4, 3);
  const auto mapping = test.memfd.map(os::Access::kReadWrite);
  std::mt19937_64 random(1);
  for (std::size_t at = sizeof(wire::JournalHeader); at < mapping->size(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(mapping->data() + at, &word, sizeof word);
  }
  for (std::uint64_t i = 0; i < 1000; ++i) {
    // The connection is the one that stands in the record.
    const std::uint32_t place = i % 4;
    std::uint64_t connection = 0;
    std::memcpy(
        &connection, mapping->data() + wire::journal_record_offset(place), sizeof connection);
    EXPECT_FALSE(read_left(test.memfd.fd(), place, connection, random(), random()).has_value());
  }
}

}  // namespace
}  // namespace phalanx::front
