// SPDX-License-Identifier: Apache-2.0
#include "phalanx/front/left_journals.h"

#include <gtest/gtest.h>

#include "phalanx/os/machine.h"

#include "journal_walk.h"

namespace phalanx::front {
namespace {

struct Left {
  TestMemory memory = TestMemory::make(1, 1);
  std::unique_ptr<JournalMemory> journal = memory.adopt();

  [[nodiscard]] int fd() const { return memory.memfd.fd(); }
};

TEST(LeftJournals, EachIsMappedOnceAndKeepsNoDescriptor) {
  const Left first;
  const Left second;
  LeftJournals journals;
  const std::size_t before = os::open_descriptors();
  const auto one = *journals.of(first.fd());
  const auto other = *journals.of(second.fd());
  EXPECT_NE(one, other);
  for (int i = 0; i < 10; ++i) {  // two fronts have died, and what they left comes in turns
    EXPECT_EQ(*journals.of(first.fd()), one);
    EXPECT_EQ(*journals.of(second.fd()), other);
  }
  EXPECT_EQ(os::open_descriptors(), before);
}

TEST(LeftJournals, OneIsForgottenWhenNobodyHoldsItOrHasAskedForItInASecond) {
  const Left left;
  LeftJournals journals;
  std::shared_ptr<const LeftJournal> held = *journals.of(left.fd());
  const std::weak_ptr<const LeftJournal> known = held;
  for (int i = 0; i < 3; ++i) {
    journals.end_second();
  }
  EXPECT_EQ(*journals.of(left.fd()), held) << "not mapped again while a connection waits with it";
  held.reset();
  journals.end_second();
  EXPECT_FALSE(known.expired()) << "it was asked for";
  journals.end_second();
  EXPECT_TRUE(known.expired());
}

TEST(LeftJournals, WhatIsNoneIsRefused) {
  LeftJournals journals;
  EXPECT_FALSE(journals.of(-1));
}

}  // namespace
}  // namespace phalanx::front
