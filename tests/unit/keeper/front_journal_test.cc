// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/front_journal.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include <gtest/gtest.h>

namespace phalanx::keeper {
namespace {

constexpr std::uint32_t kPlaces = 10;
constexpr std::uint64_t kOwnBytes = std::uint64_t{2} << 30;

std::shared_ptr<FrontJournal> make() {
  auto journal = FrontJournal::create(FrontJournal::bytes_of(kPlaces, kOwnBytes), kPlaces);
  EXPECT_TRUE(journal) << journal.error().message();
  return *std::move(journal);
}

void write(const FrontJournal& journal, std::uint32_t place, const wire::JournalOwner& owner) {
  const auto at = static_cast<off_t>(wire::journal_record_offset(place));
  ASSERT_EQ(::pwrite(journal.fd(), &owner, sizeof owner, at), ssize_t{sizeof owner});
}

TEST(FrontJournal, IsSparseMemoryThatAFrontTakesForItsOwn) {
  const auto journal = make();
  const std::size_t bytes = FrontJournal::bytes_of(kPlaces, kOwnBytes);
  EXPECT_EQ(bytes % 4096, 0U);
  EXPECT_GE(bytes, wire::journal_record_offset(kPlaces) + kOwnBytes);
  auto memory = os::Memfd::adopt(os::UniqueFd(::fcntl(journal->fd(), F_DUPFD_CLOEXEC, 0)), bytes);
  ASSERT_TRUE(memory);
  const auto mapping = memory->map(os::Access::kReadWrite);
  ASSERT_TRUE(mapping);
  wire::JournalHeader header;
  std::memcpy(&header, mapping->data(), sizeof header);
  EXPECT_EQ(header.magic, wire::kJournalMagic);
  EXPECT_EQ(header.format, wire::kJournalFormat);
  EXPECT_EQ(header.places, kPlaces);
  EXPECT_EQ(header.marks, FrontJournal::Marks{});
}

TEST(FrontJournal, HoldsWhatHasBeenPublishedOfAConnection) {
  const auto journal = make();
  EXPECT_FALSE(journal->holds(3, 0)) << "nobody's";
  write(*journal, 3, {.connection = 41, .published = 0});
  EXPECT_FALSE(journal->holds(3, 41));
  write(*journal, 3, {.connection = 41, .published = 7});
  write(*journal, kPlaces, {.connection = 42, .published = 7});
  EXPECT_TRUE(journal->holds(3, 41));
  EXPECT_FALSE(journal->holds(3, 42));
  EXPECT_FALSE(journal->holds(2, 41));
  EXPECT_FALSE(journal->holds(kPlaces, 42)) << "there is no record";
  EXPECT_FALSE(journal->holds(wire::kNoJournalPlace, 41));
}

TEST(FrontJournal, IsOnlyReadWhenItsFrontIsDead) {
  const auto journal = make();
  write(*journal, 0, {.connection = 41, .published = 1});
  const wire::JournalHeader header{.marks = {5, 0, 6}};
  ASSERT_EQ(::pwrite(journal->fd(), &header, sizeof header, 0), ssize_t{sizeof header});
  ASSERT_TRUE(journal->close_for_writing());
  EXPECT_EQ(::fcntl(journal->fd(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_NE(::fcntl(journal->fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_TRUE(journal->holds(0, 41));
  EXPECT_EQ(journal->marks(), (FrontJournal::Marks{5, 0, 6}));
  auto memory = os::Memfd::adopt(os::UniqueFd(::fcntl(journal->fd(), F_DUPFD_CLOEXEC, 0)),
                                 FrontJournal::bytes_of(kPlaces, kOwnBytes));
  ASSERT_TRUE(memory) << "the next front maps it";
  EXPECT_TRUE(memory->map(os::Access::kReadOnly));
  EXPECT_FALSE(memory->map(os::Access::kReadWrite));
}

TEST(FrontJournal, GivesItsMemoryBackInPieces) {
  const std::uint64_t bytes = FrontJournal::bytes_of(kPlaces, std::uint64_t{64} << 20);
  const auto journal = *FrontJournal::create(bytes, kPlaces);
  const std::string piece(std::size_t{1} << 20, 'x');
  for (const off_t at : {8 << 20, 9 << 20, 10 << 20, 11 << 20, 12 << 20, 50 << 20}) {
    ASSERT_EQ(::pwrite(journal->fd(), piece.data(), piece.size(), at),
              static_cast<ssize_t>(piece.size()));
  }
  ASSERT_TRUE(journal->close_for_writing());
  const auto kilobytes = [&] {
    struct stat info {};
    EXPECT_EQ(::fstat(journal->fd(), &info), 0);
    return info.st_blocks / 2;
  };
  const auto before = kilobytes();
  int pieces = 0;
  while (journal->give_back_some()) {
    ++pieces;
    ASSERT_LT(pieces, 100);
  }
  EXPECT_GE(before, 6 << 10);
  EXPECT_EQ(kilobytes(), 0);
  EXPECT_GE(pieces, 3) << "none of them is long";
}

TEST(FrontJournal, IsRefusedWhereItCannotBe) {
  EXPECT_FALSE(FrontJournal::create(FrontJournal::bytes_of(kPlaces, 0) - 4096, kPlaces));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto journal = FrontJournal::create(FrontJournal::bytes_of(kPlaces, kOwnBytes), kPlaces);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace phalanx::keeper
