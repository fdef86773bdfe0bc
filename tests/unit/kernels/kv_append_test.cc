// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <limits>
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
  Rows(std::uint32_t kv_heads, std::uint32_t head_dim, std::vector<std::uint64_t> slots, Kind kind)
      : kv_heads_(kv_heads),
        head_dim_(head_dim),
        slots_(std::move(slots)),
        keys_(bf16s(slots_.size() * stride(), 1, kind)),
        values_(floats(slots_.size() * stride(), 2, kind)),
        kv_(bf16s(kBlocks * kv_heads * tile(), 3, Kind::kOrdinary)) {}

  [[nodiscard]] std::size_t stride() const { return std::size_t{kv_heads_} * head_dim_; }
  [[nodiscard]] std::size_t tile() const { return kv_tile_elements(head_dim_); }
  std::vector<Bf16>& keys() { return keys_; }
  std::vector<float>& values() { return values_; }
  [[nodiscard]] const std::vector<Bf16>& kv() const { return kv_; }

  // The last tile first; returns how many numbers were not finite.
  std::uint64_t append(const KernelTable& table) {
    std::atomic<std::uint64_t> non_finite{0};
    const KvAppendArgs args{keys_.data(),
                            stride(),
                            values_.data(),
                            stride(),
                            slots_.data(),
                            {kv_.data(), kv_heads_ * tile(), tile()},
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
  std::uint32_t kv_heads_;
  std::uint32_t head_dim_;
  std::vector<std::uint64_t> slots_;
  std::vector<Bf16> keys_;
  std::vector<float> values_;
  std::vector<Bf16> kv_;
};

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
          Rows actual(kv_heads, head_dim, slots, kind);
          Rows expected = actual;
          ASSERT_EQ(actual.append(table()), expected.append(ref()));
          ASSERT_NO_FATAL_FAILURE(expect_same_bits(actual.kv(), expected.kv()))
              << head_dim << " dimensions, first slot " << slots[0];
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, KvAppendEachIsa, ::testing::ValuesIn(vector_isas()), isa_test_name);

// Where packed_index() says, in each half of the tile.
TEST(KvAppend, PutsTheNumbersOfATokenIntoItsColumnAndItsRow) {
  const FloatModeScope mode;
  Rows rows(2, 48, run_of(37, 1), Kind::kOrdinary);
  ASSERT_EQ(rows.append(kernel_table(Isa::kRef)), 0U);
  for (std::size_t head = 0; head < 2; ++head) {
    const Bf16* keys = rows.kv().data() + (1 * 2 + head) * rows.tile();
    const Bf16* values = keys + kv_tile_key_elements(48);
    for (std::size_t i = 0; i < 48; ++i) {
      EXPECT_EQ(keys[packed_index(5, i, padded_k(48))], rows.keys()[head * 48 + i]);
      EXPECT_EQ(values[packed_index(i, 5, kKvBlockTokens)],
                tensor::to_bf16(rows.values()[head * 48 + i]));
    }
  }
}

TEST(KvAppend, CountsNonFiniteNumbersAndWritesZeros) {
  const FloatModeScope mode;
  for (const Isa isa : available_isas()) {
    Rows rows(1, 16, run_of(0, 3), Kind::kOrdinary);
    rows.values()[5] = std::numeric_limits<float>::infinity();
    rows.values()[16] = std::numeric_limits<float>::quiet_NaN();
    rows.values()[17] = 3.4e38F;  // rounds to infinity in bf16
    rows.keys()[20] = {0x7F80};
    rows.keys()[21] = {0xFFC0};
    EXPECT_EQ(rows.append(kernel_table(isa)), 5U);
    EXPECT_TRUE(std::ranges::all_of(rows.kv(), [](Bf16 x) { return tensor::is_finite(x); }));
  }
}

}  // namespace
}  // namespace phalanx::kernels
