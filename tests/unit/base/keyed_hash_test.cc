// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/keyed_hash.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

// Of the key 00 01 … 0f and the bytes 00 01 …, as many as are there.
TEST(KeyedHash, IsSipHash24) {
  KeyedHash hash(0x0706050403020100, 0x0F0E0D0C0B0A0908);
  EXPECT_EQ(hash.value(), 0x726FDB47DD0E0E31U);
  EXPECT_EQ(hash.add(0x0706050403020100).value(), 0x93F5F5799A932462U);
  EXPECT_EQ(hash.add(0x0F0E0D0C0B0A0908).value(), 0x3F2ACC7F57C29BDBU);
  EXPECT_EQ(hash.add(0x1716151413121110).value(), 0xB8AD50C6F649AF94U);
}

}  // namespace
}  // namespace phalanx
