// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "phalanx/kernels/rows.h"

#include "kernel_inputs.h"

namespace phalanx::kernels {
namespace {

constexpr std::uint32_t kBlocks = 4;

// Keys and values of one row for each slot, and a cache of kBlocks that holds what was there
// before.
class Rows {
 public:
  Rows(std::uint32_t kv_heads,
       std::uint32_t head_dim,
       std::vector<std::uint64_t> slots,
       Kind kind,
       KvFormat format)
      : kv_heads_(kv_heads),
        head_dim_(head_dim),
        format_(format),
        slots_(std::move(slots)),
        keys_(bf16s(slots_.size() * stride(), 1, kind)),
        values_(floats(slots_.size() * stride(), 2, kind)),
        kv_(bytes_of(bf16s(kBlocks * kv_heads * tile() / sizeof(Bf16), 3, Kind::kOrdinary))) {}

  [[nodiscard]] std::size_t stride() const { return std::size_t{kv_heads_} * head_dim_; }
  [[nodiscard]] std::size_t tile() const { return kv_tile(format_, head_dim_).bytes; }
  std::vector<Bf16>& keys() { return keys_; }
  std::vector<float>& values() { return values_; }
  [[nodiscard]] const std::vector<std::byte>& kv() const { return kv_; }

  // The last tile first; returns how many numbers were not finite.
  std::uint64_t append(const KernelTable& table) {
    std::atomic<std::uint64_t> non_finite{0};
    const KvAppendArgs args{keys_.data(),
                            stride(),
                            values_.data(),
                            stride(),
                            slots_.data(),
                            {kv_.data(), kv_heads_ * tile(), tile(), format_},
                            static_cast<std::uint32_t>(slots_.size()),
                            kv_heads_,
                            head_dim_,
                            &non_finite};
    for (std::uint32_t tile = kv_append_tiles(args); tile > 0; --tile) {
      table.kv_append(args, tile - 1);
    }
    return non_finite.load();
  }

 private:
  static std::vector<std::byte> bytes_of(const std::vector<Bf16>& numbers) {
    const auto bytes = std::as_bytes(std::span(numbers));
    return {bytes.begin(), bytes.end()};
  }

  std::uint32_t kv_heads_;
  std::uint32_t head_dim_;
  KvFormat format_;
  std::vector<std::uint64_t> slots_;
  std::vector<Bf16> keys_;
  std::vector<float> values_;
  std::vector<std::byte> kv_;
};

constexpr KvFormat kFormats[] = {KvFormat::kBf16, KvFormat::kInt8};

std::vector<std::uint64_t> run_of(std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> slots(count);
  for (std::uint64_t& slot : slots) {
    slot = first++;
  }
  return slots;
}

// Prompts that begin at even and odd tokens and cross tiles of rows and blocks; decodes; neighbours
// the other way round, and in blocks that do not follow each other.
std::vector<std::vector<std::uint64_t>> slot_lists() {
  std::vector<std::vector<std::uint64_t>> lists = {run_of(0, 1),
                                                   run_of(33, 1),
                                                   run_of(0, 128),
                                                   run_of(1, 100),
                                                   run_of(30, 5),
                                                   run_of(7, 9),
                                                   {5, 4, 3, 2, 1, 0},
                                                   {64, 0, 65, 1, 96, 97, 31, 32, 33},
                                                   {31, 64, 65, 66, 127}};
  std::vector<std::uint64_t> shuffled = run_of(0, 128);
  Inputs inputs(4);
  for (std::size_t i = shuffled.size(); i > 1; --i) {
    std::swap(shuffled[i - 1], shuffled[inputs.below(static_cast<std::uint32_t>(i))]);
  }
  lists.push_back(shuffled);
  return lists;
}

class KvAppendEachIsa : public EachIsa {};

TEST_P(KvAppendEachIsa, WritesTheBytesOfTheReferenceAndNoOthers) {
  for (const std::uint32_t head_dim : {16U, 48U, 64U, 80U, 128U, 256U}) {
    for (const std::uint32_t kv_heads : {1U, 3U}) {
      for (const Kind kind : {Kind::kOrdinary, Kind::kExtreme, Kind::kLawless}) {
        for (const std::vector<std::uint64_t>& slots : slot_lists()) {
          for (const KvFormat format : kFormats) {
            Rows actual(kv_heads, head_dim, slots, kind, format);
            Rows expected = actual;
            ASSERT_EQ(actual.append(table()), expected.append(ref()));
            ASSERT_TRUE(actual.kv() == expected.kv())
                << head_dim << " dimensions, first slot " << slots[0];
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, KvAppendEachIsa, ::testing::ValuesIn(vector_isas()), isa_test_name);

Bf16 number_at(const std::byte* from, std::size_t index) {
  Bf16 number;
  std::memcpy(&number, from + index * sizeof(number), sizeof(number));
  return number;
}

// Where packed_index() says, in each half of the tile.
TEST(KvAppend, PutsTheNumbersOfATokenIntoItsColumnAndItsRow) {
  const FloatModeScope mode;
  Rows rows(2, 48, run_of(37, 1), Kind::kOrdinary, KvFormat::kBf16);
  ASSERT_EQ(rows.append(kernel_table(Isa::kRef)), 0U);
  for (std::size_t head = 0; head < 2; ++head) {
    const std::byte* keys = rows.kv().data() + (1 * 2 + head) * rows.tile();
    const std::byte* values = keys + kv_tile(KvFormat::kBf16, 48).values;
    for (std::size_t i = 0; i < 48; ++i) {
      EXPECT_EQ(number_at(keys, packed_index(5, i, padded_k(48))), rows.keys()[head * 48 + i]);
      EXPECT_EQ(number_at(values, packed_index(i, 5, kKvBlockTokens)),
                tensor::to_bf16(rows.values()[head * 48 + i]));
    }
  }
}

// The largest number of a group is a code of ±127 and its scale a 127th of it.
TEST(KvAppend, CodesEachKeyByGroupsAndEachValueAsAWhole) {
  const FloatModeScope mode;
  constexpr std::size_t kToken = 21;
  Rows rows(1, 64, run_of(kToken, 1), Kind::kOrdinary, KvFormat::kInt8);
  std::ranges::fill(rows.keys(), Bf16{});
  std::ranges::fill(rows.values(), 0.0F);
  rows.keys()[3] = tensor::to_bf16(-12.7F);
  rows.keys()[33] = tensor::to_bf16(254.0F);
  rows.keys()[34] = tensor::to_bf16(-1.0F);
  rows.values()[1] = 127.0F;
  rows.values()[50] = -2.5F;  // a tie: to the even code
  ASSERT_EQ(rows.append(kernel_table(Isa::kRef)), 0U);
  const std::byte* strip = rows.kv().data() + (64 + 64 * 16);
  const auto key_code = [&](std::size_t i) {
    return std::to_integer<int>(strip[64 + (i / 4 * 16 + kToken % 16) * 4 + i % 4]) - 128;
  };
  EXPECT_EQ(key_code(3), -127);
  EXPECT_EQ(key_code(4), 0);
  EXPECT_EQ(key_code(33), 127);
  EXPECT_EQ(key_code(34), 0);  // half of a scale of 2: the even code
  tensor::F16 scale;
  std::memcpy(&scale, strip + (16 + kToken % 16) * sizeof(scale), sizeof(scale));
  EXPECT_EQ(tensor::to_float(scale), 2.0F);
  const KvTile tile = kv_tile(KvFormat::kInt8, 64);
  EXPECT_EQ(tensor::to_float(number_at(rows.kv().data() + tile.value_scales, kToken)), 1.0F);
  const auto value_code = [&](std::size_t i) {
    return static_cast<std::int8_t>(rows.kv()[tile.values + (i / 16 * 32 + kToken) * 16 + i % 16]);
  };
  EXPECT_EQ(value_code(1), 127);
  EXPECT_EQ(value_code(50), -2);
  EXPECT_EQ(value_code(2), 0);
}

TEST(KvAppend, CountsNonFiniteNumbersAndWritesZeros) {
  const FloatModeScope mode;
  for (const Isa isa : available_isas()) {
    Rows rows(1, 16, run_of(0, 3), Kind::kOrdinary, KvFormat::kBf16);
    rows.values()[5] = std::numeric_limits<float>::infinity();
    rows.values()[16] = std::numeric_limits<float>::quiet_NaN();
    rows.values()[17] = 3.4e38F;  // rounds to infinity in bf16
    rows.keys()[20] = {0x7F80};
    rows.keys()[21] = {0xFFC0};
    EXPECT_EQ(rows.append(kernel_table(isa)), 5U);
    for (std::size_t i = 0; i < rows.kv().size() / sizeof(Bf16); ++i) {
      EXPECT_TRUE(tensor::is_finite(number_at(rows.kv().data(), i)));
    }
  }
}

// A group of a key, and a value, that has such a number is zeros and counts once.
TEST(KvAppend, CountsNonFiniteGroupsOfCodes) {
  const FloatModeScope mode;
  for (const Isa isa : available_isas()) {
    Rows rows(1, 64, run_of(0, 2), Kind::kOrdinary, KvFormat::kInt8);
    rows.values()[5] = std::numeric_limits<float>::infinity();
    rows.values()[6] = std::numeric_limits<float>::quiet_NaN();
    rows.values()[64 + 17] = 3.4e38F;  // can be coded
    rows.keys()[40] = {0x7F80};
    rows.keys()[41] = {0xFFC0};
    EXPECT_EQ(rows.append(kernel_table(isa)), 2U);
    const KvTile tile = kv_tile(KvFormat::kInt8, 64);
    EXPECT_EQ(number_at(rows.kv().data() + tile.value_scales, 0), Bf16{});
    EXPECT_TRUE(tensor::is_finite(number_at(rows.kv().data() + tile.value_scales, 1)));
    EXPECT_EQ(std::to_integer<int>(rows.kv()[16 * 2]), 0);  // the scale of the second group
    EXPECT_EQ(std::to_integer<int>(rows.kv()[16 * 2 + 1]), 0);
    EXPECT_NE(std::to_integer<int>(rows.kv()[1]), 0);
  }
}

}  // namespace
}  // namespace phalanx::kernels
