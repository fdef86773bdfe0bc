// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/memfd.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

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

TEST(Mapping, CollapsesToHugePagesAndTellsHowMany) {
  const Memfd memory = *Memfd::create("test", kFourHugePages);
  Mapping mapping = *memory.map(Access::kReadWrite);
  std::memset(mapping.data(), 0x5A, mapping.size());
  const std::size_t huge = mapping.collapse_huge();
  EXPECT_LE(huge, kFourHugePages);
  EXPECT_EQ(huge % kHugePageBytes, 0U);
  for (std::size_t i = 0; i < mapping.size(); i += 4096) {
    ASSERT_EQ(mapping.data()[i], std::byte{0x5A});
  }
  if (huge == 0) {
    GTEST_SKIP() << "this kernel does not collapse shared memory";
  }
  Memfd sealed = *Memfd::adopt(UniqueFd(::dup(memory.fd())), memory.size());
  mapping = Mapping();
  ASSERT_TRUE(sealed.seal_content());
  EXPECT_GT(sealed.map(Access::kReadOnly)->collapse_huge(), 0U)
      << "a sealed arena is huge for its readers, too";
}

TEST(Mapping, PopulatesBothKinds) {
  const Memfd memory = *Memfd::create("test", 1 << 20);
  EXPECT_TRUE(memory.map(Access::kReadWrite)->populate());
  EXPECT_TRUE(memory.map(Access::kReadOnly)->populate());
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
