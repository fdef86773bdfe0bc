// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/memfd.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/os/unique_fd.h"

namespace phalanx::os {
namespace {

constexpr std::size_t kFourHugePages = 4 * kHugePageBytes;

TEST(Memfd, SharesItsBytesAmongMappings) {
  const Memfd memory = *Memfd::create("test", 10000);
  const Mapping writer = *memory.map(Access::kReadWrite);
  const Mapping reader = *memory.map(Access::kReadOnly);
  EXPECT_EQ(writer.size(), 10000U);
  EXPECT_EQ(reader.data()[9999], std::byte{0});
  writer.data()[9999] = std::byte{42};
  EXPECT_EQ(reader.data()[9999], std::byte{42});
}

TEST(Memfd, RefusesMoreThanThereIs) {
  const auto memory = Memfd::create("test", std::size_t{1} << 50);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(Memfd::create("test", 0).error().code(), Code::kInvalidArgument);
}

TEST(Memfd, CannotChangeItsSize) {
  const Memfd memory = *Memfd::create("test", 8192);
  EXPECT_NE(::ftruncate(memory.fd(), 4096), 0);
  EXPECT_NE(::ftruncate(memory.fd(), 16384), 0);
}

TEST(Memfd, SealsItsContentOnceNobodyWrites) {
  Memfd memory = *Memfd::create("test", 4096);
  {
    const Mapping writer = *memory.map(Access::kReadWrite);
    writer.data()[0] = std::byte{1};
    EXPECT_EQ(memory.seal_content().error().code(), Code::kFailedPrecondition);
  }
  EXPECT_FALSE(memory.content_sealed());
  EXPECT_TRUE(memory.seal_content());
  EXPECT_TRUE(memory.seal_content()) << "sealing twice is no error";
  EXPECT_TRUE(memory.content_sealed());
  EXPECT_EQ(memory.map(Access::kReadWrite).error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(memory.map(Access::kReadOnly)->data()[0], std::byte{1});
  EXPECT_NE(::write(memory.fd(), "x", 1), 1);
}

TEST(Memfd, AdoptsOnlyTheExpectedSealedMemory) {
  const Memfd memory = *Memfd::create("test", 8192);
  const auto copy = [&] { return UniqueFd(::dup(memory.fd())); };
  EXPECT_TRUE(Memfd::adopt(copy(), 8192));
  EXPECT_EQ(Memfd::adopt(copy(), 4096).error().code(), Code::kInvalidArgument);
  Pipe pipe = *make_pipe();
  EXPECT_EQ(Memfd::adopt(std::move(pipe.read), 8192).error().code(), Code::kInvalidArgument);
  UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), 8192), 0);
  EXPECT_EQ(Memfd::adopt(std::move(unsealed), 8192).error().code(), Code::kInvalidArgument);
  EXPECT_FALSE(Memfd::adopt(UniqueFd(), 8192));
}

TEST(Memfd, MapsRangesAtAddressesCongruentToTheirOffsets) {
  const Memfd memory = *Memfd::create("test", kFourHugePages);
  for (const std::size_t offset : {std::size_t{0}, std::size_t{4096}, kHugePageBytes + 8192}) {
    const Mapping mapping = *memory.map(Access::kReadWrite, offset, 4096);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping.data()) % kHugePageBytes,
              offset % kHugePageBytes);
    mapping.data()[0] = std::byte{7};
    const Mapping whole = *memory.map(Access::kReadOnly);
    EXPECT_EQ(whole.data()[offset], std::byte{7});
  }
}

TEST(Memfd, RefusesRangesOutOfBounds) {
  const Memfd memory = *Memfd::create("test", 8192);
  EXPECT_FALSE(memory.map(Access::kReadOnly, 4096, 8192));
  EXPECT_FALSE(memory.map(Access::kReadOnly, 12288, 1));
  EXPECT_FALSE(memory.map(Access::kReadOnly, 100, 1));
  EXPECT_FALSE(memory.map(Access::kReadOnly, 0, 0));
  EXPECT_FALSE(memory.map(Access::kReadOnly, 4096, SIZE_MAX - 100));
}

std::size_t allocated_bytes(const Memfd& memory) {
  struct stat info {};
  EXPECT_EQ(::fstat(memory.fd(), &info), 0);
  return static_cast<std::size_t>(info.st_blocks) * 512;
}

TEST(Memfd, ReservesMoreThanThereIsAndTakesNothing) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer has taken most of the address space";
#endif
  const Memfd memory = *Memfd::reserve("test", std::size_t{1} << 42);
  EXPECT_EQ(allocated_bytes(memory), 0U);
  EXPECT_TRUE(memory.map(Access::kReadWrite)) << "it is mapped whole";
  EXPECT_EQ(memory.back(0, std::size_t{1} << 42).error().code(), Code::kResourceExhausted);
  EXPECT_EQ(allocated_bytes(memory), 0U) << "what is not there is not begun";
  EXPECT_EQ(memory.back(memory.size(), 1).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Memfd::reserve("test", 0).error().code(), Code::kInvalidArgument);
}

TEST(Memfd, BacksWhatIsAskedForAndKeepsWhatIsThere) {
  const Memfd memory = *Memfd::reserve("test", kFourHugePages + 12288);
  const Mapping mapping = *memory.map(Access::kReadWrite);
  ASSERT_TRUE(memory.back(0, 4096));
  EXPECT_EQ(allocated_bytes(memory), 4096U);
  mapping.data()[17] = std::byte{0x5A};
  ASSERT_TRUE(memory.back(0, 2 * kHugePageBytes));
  EXPECT_EQ(allocated_bytes(memory), 2 * kHugePageBytes);
  EXPECT_EQ(mapping.data()[17], std::byte{0x5A});
  ASSERT_TRUE(memory.back(2 * kHugePageBytes, memory.size() - 2 * kHugePageBytes));
  EXPECT_EQ(allocated_bytes(memory), memory.size());
  EXPECT_EQ(mapping.data()[memory.size() - 1], std::byte{0});
}

TEST(Memfd, GivesTheMemoryOfAMappingBack) {
  const Memfd memory = *Memfd::reserve("test", kFourHugePages);
  const Mapping reader = *memory.map(Access::kReadOnly);
  Mapping mapping = *memory.map(Access::kReadWrite);
  ASSERT_TRUE(memory.back(0, memory.size()));
  mapping.data()[5] = std::byte{1};
  ASSERT_TRUE(mapping.discard());
  EXPECT_EQ(allocated_bytes(memory), 0U);
  EXPECT_EQ(reader.data()[5], std::byte{0});
}

TEST(Memfd, GivesItsMemoryBackFromTheFirstOn) {
  const auto memory = Memfd::reserve("test", 64 << 10);
  ASSERT_TRUE(memory);
  EXPECT_FALSE(memory->give_back_first(4096)) << "there is none";
  for (const off_t at : {8192, 32768}) {
    ASSERT_EQ(::pwrite(memory->fd(), "x", 1, at), 1);
  }
  const auto content = [&](off_t at) {
    char byte = 0;
    EXPECT_EQ(::pread(memory->fd(), &byte, 1, at), 1);
    return byte;
  };
  EXPECT_TRUE(memory->give_back_first(4096));
  EXPECT_EQ(content(8192), 0);
  EXPECT_EQ(content(32768), 'x');
  EXPECT_TRUE(memory->give_back_first(4096));
  EXPECT_FALSE(memory->give_back_first(4096));
}

TEST(Memfd, CanBeOpenedForReadingOnly) {
  const auto memory = Memfd::create("test", 4096);
  ASSERT_TRUE(memory);
  const auto reading = memory->open_for_reading();
  ASSERT_TRUE(reading) << reading.error().message();
  EXPECT_EQ(::pwrite(memory->fd(), "x", 1, 7), 1);
  char byte = 0;
  EXPECT_EQ(::pread(reading->get(), &byte, 1, 7), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_EQ(::pwrite(reading->get(), "y", 1, 7), -1);
}

TEST(Mapping, StaysOutOfCoreDumps) {
  const Memfd memory = *Memfd::reserve("test", 8192);
  Mapping mapping = *memory.map(Access::kReadWrite);
  ASSERT_TRUE(mapping.exclude_from_dumps());
  std::ifstream maps("/proc/self/smaps");
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<std::uintptr_t>(mapping.data()) << "-";
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    found = line.find(begin.str()) != std::string::npos || found;
    if (found && line.rfind("VmFlags:", 0) == 0) {
      EXPECT_NE(line.find(" dd"), std::string::npos) << line;
      return;
    }
  }
  ADD_FAILURE() << "the mapping is not listed";
}

TEST(Mapping, OutlivesTheDescriptor) {
  Mapping mapping;
  {
    const Memfd memory = *Memfd::create("test", 4096);
    mapping = *memory.map(Access::kReadWrite);
  }
  mapping.data()[5] = std::byte{9};
  EXPECT_EQ(mapping.data()[5], std::byte{9});
}

}  // namespace
}  // namespace phalanx::os
