// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>

#include "phalanx/kernels/rows.h"
#include "phalanx/tensor/arena.h"

#include "kernel_inputs.h"
#include "matmul_tables.h"

namespace phalanx::kernels {
namespace {

struct Shape {
  std::uint32_t kv_heads;
  std::uint32_t group;
  std::uint32_t head_dim;
};

// One sequence of `length` tokens with its keys and values in a KV cache of its own.
class Cache {
 public:
  Cache(const Shape& shape,
        std::uint32_t length,
        std::uint64_t seed,
        Kind kind,
        KvFormat format = KvFormat::kBf16)
      : shape_(shape),
        format_(format),
        q_stride_(std::size_t{shape.kv_heads} * shape.group * shape.head_dim),
        q_(bf16s(length * q_stride_, seed, kind)),
        keys_(bf16s(std::size_t{length} * shape.kv_heads * shape.head_dim, seed + 1, kind)),
        values_(floats(std::size_t{length} * shape.kv_heads * shape.head_dim, seed + 2, kind)) {
    const std::uint32_t blocks = (length + 31) / 32;
    for (std::uint32_t i = 0; i < blocks; ++i) {
      blocks_.push_back(blocks - 1 - i);  // not in order, as in a real pool
    }
    kv_memory_.assign(blocks * shape.kv_heads * kv_tile(format, shape.head_dim).bytes, {});
  }

  // Fills what the sequence has not written with finite garbage: what kv_append() wrote for others.
  void soil() {
    Inputs inputs(99);
    const std::size_t stride = std::size_t{shape_.kv_heads} * shape_.head_dim;
    const auto tokens = static_cast<std::uint32_t>(blocks_.size() * 32);
    std::vector<Bf16> keys(tokens * stride);
    std::vector<float> values(tokens * stride);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = tensor::to_bf16(inputs.uniform() * 1e30F);
      values[i] = inputs.uniform() * 1e30F;
    }
    ASSERT_EQ(append_rows(0, tokens, keys.data(), values.data()), 0U);
  }

  [[nodiscard]] std::uint64_t append(std::uint32_t first, std::uint32_t count) {
    const std::size_t stride = std::size_t{shape_.kv_heads} * shape_.head_dim;
    return append_rows(
        first, count, keys_.data() + first * stride, values_.data() + first * stride);
  }

  [[nodiscard]] std::uint64_t append_rows(std::uint32_t first,
                                          std::uint32_t count,
                                          const Bf16* keys,
                                          const float* values) {
    std::vector<std::uint64_t> slots;
    for (std::uint32_t i = first; i < first + count; ++i) {
      slots.push_back(std::uint64_t{blocks_[i / 32]} * 32 + i % 32);
    }
    std::atomic<std::uint64_t> non_finite{0};
    const std::size_t stride = std::size_t{shape_.kv_heads} * shape_.head_dim;
    const KvAppendArgs args{keys,
                            stride,
                            values,
                            stride,
                            slots.data(),
                            view(),
                            count,
                            shape_.kv_heads,
                            shape_.head_dim,
                            &non_finite};
    for (std::uint32_t tile = 0; tile < kv_append_tiles(args); ++tile) {
      kernel_table(Isa::kRef).kv_append(args, tile);
    }
    return non_finite.load();
  }

  // Rows first … first + count − 1, as one chunk.
  [[nodiscard]] std::vector<Bf16> attend(const KernelTable& table,
                                         std::uint32_t first,
                                         std::uint32_t count,
                                         const AttentionTeam& team = {}) const {
    std::vector<Bf16> out(count * q_stride_);
    AttentionArgs args;
    args.out = out.data();
    args.out_stride = q_stride_;
    run(table, first, count, team, args);
    return out;
  }
  // The same before the rounding.
  [[nodiscard]] std::vector<float> attend_wide(const KernelTable& table,
                                               std::uint32_t first,
                                               std::uint32_t count,
                                               const AttentionTeam& team = {}) const {
    GuardedRows out(count, q_stride_);
    AttentionArgs args;
    args.out_wide = out.data();
    args.out_stride = out.stride();
    run(table, first, count, team, args);
    return out.take();
  }

  // Softmax attention in double for one query, over the numbers that are held for it.
  [[nodiscard]] std::vector<double> oracle(std::uint32_t row, std::uint32_t head) const {
    const std::size_t d = shape_.head_dim;
    const std::uint32_t kv_head = head / shape_.group;
    const std::vector<double> q = held_query(row, head);
    std::vector<double> weights;
    double largest = -1e300;
    for (std::uint32_t token = 0; token <= row; ++token) {
      double score = 0.0;
      for (std::size_t i = 0; i < d; ++i) {
        score += q[i] * held_key(token, kv_head, i);
      }
      weights.push_back(score / std::sqrt(static_cast<double>(d)));
      largest = std::max(largest, weights.back());
    }
    double total = 0.0;
    for (double& weight : weights) {
      weight = std::exp(weight - largest);
      total += weight;
    }
    std::vector<double> out(d);
    for (std::uint32_t token = 0; token <= row; ++token) {
      for (std::size_t i = 0; i < d; ++i) {
        out[i] += weights[token] / total * held_value(token, kv_head, i);
      }
    }
    return out;
  }

  // Of some rows and one thread.
  [[nodiscard]] std::uint32_t tiles_for(std::uint32_t rows) const {
    std::vector<AttentionSequence> sequences = {{0, rows, 100, nullptr}};
    return plan_attention(sequences, shape_.kv_heads, shape_.group, {}).tiles;
  }

  [[nodiscard]] std::size_t q_stride() const { return q_stride_; }
  [[nodiscard]] std::vector<float>& values() { return values_; }
  [[nodiscard]] std::vector<Bf16>& queries() { return q_; }

 private:
  // `args` says where to.
  void run(const KernelTable& table,
           std::uint32_t first,
           std::uint32_t count,
           const AttentionTeam& team,
           AttentionArgs args) const {
    std::vector<AttentionSequence> sequences = {{0, count, first, blocks_.data()}};
    const AttentionPlan plan = plan_attention(sequences, shape_.kv_heads, shape_.group, team);
    EXPECT_EQ(plan.folds != 0, team.records != 0) << "whether the context is divided";
    const std::size_t floats = attention_record_floats(shape_.head_dim);
    // What nobody writes is no number.
    tensor::AlignedBuffer records(team.records * floats * sizeof(float));
    std::memset(records.bytes().data(), 0xFF, records.bytes().size());
    args.q = q_.data() + first * q_stride_;
    args.q_stride = q_stride_;
    args.kv = view();
    args.kv_heads = shape_.kv_heads;
    args.group = shape_.group;
    args.head_dim = shape_.head_dim;
    args.scale = attention_scale(shape_.head_dim);
    args.sequences = sequences.data();
    args.sequence_count = 1;
    args.records = {records.as<float>().data(), floats};
    // Tiles in any order.
    for (std::uint32_t tile = plan.tiles; tile > 0; --tile) {
      table.attention(args, tile - 1);
    }
    for (std::uint32_t tile = 0; tile < plan.folds; ++tile) {
      table.attention_fold(args, tile);
    }
  }

  // As codes of 32 elements with one scale, where keys are codes.
  [[nodiscard]] std::vector<double> held_query(std::uint32_t row, std::uint32_t head) const {
    const Bf16* q = q_.data() + row * q_stride_ + std::size_t{head} * shape_.head_dim;
    std::vector<double> held(shape_.head_dim);
    std::transform(
        q, q + held.size(), held.begin(), [](Bf16 x) { return double{tensor::to_float(x)}; });
    if (format_ == KvFormat::kInt8) {
      for (std::size_t i = 0; i < held.size(); i += 32) {
        const auto group = std::span(held).subspan(i, std::min<std::size_t>(32, held.size() - i));
        double largest = 0.0;
        for (const double x : group) {
          largest = std::max(largest, std::abs(x));
        }
        for (double& x : group) {
          x = std::round(x * 127.0 / largest) * largest / 127.0;
        }
      }
    }
    return held;
  }

  [[nodiscard]] const std::byte* tile_of(std::uint32_t token, std::uint32_t kv_head) const {
    return view().tile(blocks_[token / 32], kv_head);
  }
  template <typename T>
  [[nodiscard]] static T number_at(const std::byte* from, std::size_t index) {
    T number;
    std::memcpy(&number, from + index * sizeof(T), sizeof(T));
    return number;
  }

  // Where layout.h says.
  [[nodiscard]] double held_key(std::uint32_t token, std::uint32_t kv_head, std::size_t i) const {
    const std::byte* tile = tile_of(token, kv_head);
    const std::size_t key_dim = padded_k(shape_.head_dim);
    const std::size_t column = token % 16;
    if (format_ == KvFormat::kBf16) {
      const std::size_t index = packed_index(token % 32, i, key_dim);
      return double{tensor::to_float(number_at<Bf16>(tile, index))};
    }
    const std::size_t scale_bytes = (key_dim / 32 * 16 * 2 + 63) / 64 * 64;
    const std::byte* strip = tile + token % 32 / 16 * (scale_bytes + key_dim * 16);
    const auto scale = number_at<tensor::F16>(strip, i / 32 * 16 + column);
    const auto code =
        number_at<std::uint8_t>(strip + scale_bytes, (i / 4 * 16 + column) * 4 + i % 4);
    return (static_cast<double>(code) - 128.0) * double{tensor::to_float(scale)};
  }
  [[nodiscard]] double held_value(std::uint32_t token, std::uint32_t kv_head, std::size_t i) const {
    const std::byte* tile = tile_of(token, kv_head);
    const KvTile layout = kv_tile(format_, shape_.head_dim);
    if (format_ == KvFormat::kBf16) {
      const std::size_t index = packed_index(i, token % 32, 32);
      return double{tensor::to_float(number_at<Bf16>(tile + layout.values, index))};
    }
    const auto scale = number_at<Bf16>(tile + layout.value_scales, token % 32);
    const auto code =
        number_at<std::int8_t>(tile + layout.values, (i / 16 * 32 + token % 32) * 16 + i % 16);
    return static_cast<double>(code) * double{tensor::to_float(scale)};
  }

  [[nodiscard]] KvView view() const {
    const std::size_t tile = kv_tile(format_, shape_.head_dim).bytes;
    return {const_cast<std::byte*>(kv_memory_.data()), tile * shape_.kv_heads, tile, format_};
  }

  Shape shape_;
  KvFormat format_;
  std::size_t q_stride_;
  std::vector<Bf16> q_;
  std::vector<Bf16> keys_;
  std::vector<float> values_;
  std::vector<std::uint32_t> blocks_;
  std::vector<std::byte> kv_memory_;
};

constexpr KvFormat kFormats[] = {KvFormat::kBf16, KvFormat::kInt8};

class AttentionOnEachIsa : public EachMatmulTable {
 protected:
  // With and without the rounding.
  void expect_equals_ref(const Cache& cache, std::uint32_t first, std::uint32_t count) const {
    const std::vector<float> wide = cache.attend_wide(table(), first, count);
    expect_same_bits(wide, cache.attend_wide(ref(), first, count));
    const std::vector<Bf16> out = cache.attend(table(), first, count);
    expect_same_bits(out, cache.attend(ref(), first, count));
    expect_rounded(out, wide);
  }
};

TEST_P(AttentionOnEachIsa, EqualsRefForEveryHeadShape) {
  for (const KvFormat format : kFormats) {
    const Shape shapes[] = {
        {1, 1, 16}, {2, 1, 32}, {1, 2, 48}, {2, 3, 64}, {1, 8, 128}, {1, 9, 256}};
    for (const Shape& shape : shapes) {
      for (const std::uint32_t length : {1U, 31U, 33U, 70U}) {
        Cache cache(shape, length, length, Kind::kOrdinary, format);
        ASSERT_EQ(cache.append(0, length), 0U);
        expect_equals_ref(cache, 0, length);
      }
    }
  }
}

// A wrong last bit of fp32 survives the rounding to bf16 in one of some 2^15 elements only. With
// few tokens the output shows each weight, and so exp; past the first block it shows the
// correction.
TEST_P(AttentionOnEachIsa, EqualsRefInTheLastBitOfFp32) {
  for (const KvFormat format : kFormats) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      Cache cache({8, 8, 16}, 4, seed, Kind::kOrdinary, format);
      ASSERT_EQ(cache.append(0, 4), 0U);
      expect_equals_ref(cache, 0, 4);
    }
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      Cache cache({4, 4, 256}, 40, seed, Kind::kOrdinary, format);
      ASSERT_EQ(cache.append(0, 40), 0U);
      expect_equals_ref(cache, 32, 8);
    }
  }
}

TEST_P(AttentionOnEachIsa, EqualsRefOnExtremeNumbers) {
  for (const KvFormat format : kFormats) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Cache cache({1, 2, 32}, 80, seed, Kind::kExtreme, format);
      ASSERT_EQ(cache.append(0, 80), 0U);
      expect_equals_ref(cache, 0, 80);
    }
  }
}

// Contexts of several segments, and more queries than one tile holds.
TEST_P(AttentionOnEachIsa, EqualsRefAcrossSegments) {
  for (const KvFormat format : kFormats) {
    const Shape shapes[] = {{1, 2, 64}, {2, 7, 16}, {1, 52, 32}};
    for (const Shape& shape : shapes) {
      for (const std::uint32_t length : {1024U, 1025U, 2100U}) {
        Cache cache(shape, length, length, Kind::kOrdinary, format);
        cache.soil();
        ASSERT_EQ(cache.append(0, length), 0U);
        expect_equals_ref(cache, length - 1, 1);
        expect_same_bits(cache.attend(table(), length - 45, 45),
                         cache.attend(ref(), length - 45, 45));
      }
    }
  }
}

// Tiles of several heads and rows: rows that end before and behind half a block, a block, a segment.
TEST_P(AttentionOnEachIsa, EqualsRefWhereHeadsGoTogether) {
  for (const KvFormat format : kFormats) {
    for (const Shape& shape :
         {Shape{5, 2, 48}, Shape{3, 3, 32}, Shape{8, 1, 16}, Shape{2, 4, 64}}) {
      Cache cache(shape, 1026, 7, Kind::kOrdinary, format);
      cache.soil();
      ASSERT_EQ(cache.append(0, 1026), 0U);
      for (const std::uint32_t rows : {1U, 2U, 3U, 4U}) {
        ASSERT_EQ(cache.tiles_for(rows) < shape.kv_heads, rows * shape.group <= kFewHeadQueries);
        for (const std::uint32_t end : {4U, 15U, 16U, 18U, 32U, 33U, 48U, 49U, 1024U, 1026U}) {
          SCOPED_TRACE(std::to_string(rows) + " rows to " + std::to_string(end));
          expect_equals_ref(cache, end - rows, rows);
        }
      }
    }
  }
}

TEST_P(AttentionOnEachIsa, EqualsRefOnExtremeNumbersAcrossSegments) {
  for (const KvFormat format : kFormats) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      Cache cache({1, 2, 32}, 1100, seed, Kind::kExtreme, format);
      ASSERT_EQ(cache.append(0, 1100), 0U);
      expect_equals_ref(cache, 1000, 100);
    }
  }
}

// Infinities and NaNs in queries alone: the cache holds none.
TEST_P(AttentionOnEachIsa, EqualsRefOnLawlessQueries) {
  for (const KvFormat format : kFormats) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      Cache cache({1, 3, 32}, 1100, seed, Kind::kOrdinary, format);
      ASSERT_EQ(cache.append(0, 1100), 0U);
      cache.queries() = bf16s(cache.queries().size(), seed, Kind::kLawless);
      expect_equals_ref(cache, 0, 40);
      expect_equals_ref(cache, 1070, 30);
    }
  }
}

TEST_P(AttentionOnEachIsa, DoesNotDependOnTheChunks) {
  for (const KvFormat format : kFormats) {
    const Shape shape{2, 2, 32};
    Cache whole(shape, 75, 4, Kind::kOrdinary, format);
    ASSERT_EQ(whole.append(0, 75), 0U);
    const std::vector<Bf16> expected = whole.attend(table(), 0, 75);
    for (const std::uint32_t chunk : {1U, 7U, 32U}) {
      // What the chunk does not reach yet is garbage, as in a pool whose blocks are used again.
      Cache cache(shape, 75, 4, Kind::kOrdinary, format);
      cache.soil();
      for (std::uint32_t first = 0; first < 75; first += chunk) {
        const std::uint32_t count = std::min(chunk, 75 - first);
        ASSERT_EQ(cache.append(first, count), 0U);
        expect_same_bits(
            cache.attend(table(), first, count),
            std::span(expected).subspan(first * cache.q_stride(), count * cache.q_stride()));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa,
                         AttentionOnEachIsa,
                         ::testing::ValuesIn(attention_tables()),
                         matmul_table_name);

TEST(Attention, RefDoesNotDependOnTheChunks) {
  const FloatModeScope mode;
  for (const KvFormat format : kFormats) {
    const KernelTable& ref = kernel_table(Isa::kRef);
    Cache whole({1, 2, 16}, 40, 6, Kind::kExtreme, format);
    ASSERT_EQ(whole.append(0, 40), 0U);
    const std::vector<Bf16> expected = whole.attend(ref, 0, 40);
    Cache cache({1, 2, 16}, 40, 6, Kind::kExtreme, format);
    cache.soil();
    for (std::uint32_t row = 0; row < 40; ++row) {
      ASSERT_EQ(cache.append(row, 1), 0U);
      expect_same_bits(cache.attend(ref, row, 1),
                       std::span(expected).subspan(row * cache.q_stride(), cache.q_stride()));
    }
  }
}

TEST(Attention, IsCloseToSoftmaxInDouble) {
  const FloatModeScope mode;
  for (const KvFormat format : kFormats) {
    Cache cache({2, 2, 32}, 100, 8, Kind::kOrdinary, format);
    ASSERT_EQ(cache.append(0, 100), 0U);
    const std::vector<Bf16> out = cache.attend(kernel_table(Isa::kRef), 0, 100);
    for (const std::uint32_t row : {0U, 1U, 50U, 99U}) {
      for (std::uint32_t head = 0; head < 4; ++head) {
        const std::vector<double> expected = cache.oracle(row, head);
        for (std::size_t i = 0; i < 32; ++i) {
          // Each weight is rounded to bf16 (2^-8 relative), and so is the result; values are
          // below 1.
          EXPECT_NEAR(double{tensor::to_float(out[row * cache.q_stride() + head * 32 + i])},
                      expected[i],
                      2 * 0x1p-8 + 0x1p-8 + 1e-5);
        }
      }
    }
  }
}

TEST(Attention, IsCloseToSoftmaxInDoubleAcrossSegments) {
  const FloatModeScope mode;
  for (const KvFormat format : kFormats) {
    Cache cache({1, 1, 32}, 2500, 8, Kind::kOrdinary, format);
    ASSERT_EQ(cache.append(0, 2500), 0U);
    const std::vector<Bf16> out = cache.attend(kernel_table(Isa::kRef), 2499, 1);
    const std::vector<double> expected = cache.oracle(2499, 0);
    for (std::size_t i = 0; i < 32; ++i) {
      EXPECT_NEAR(double{tensor::to_float(out[i])}, expected[i], 2 * 0x1p-8 + 0x1p-8 + 1e-5);
    }
  }
}

// Codes of 8 bits err by some 0.4 % of the root mean square of what they stand for.
TEST(Attention, OfCodesIsCloseToThatOfBf16) {
  const FloatModeScope mode;
  Cache exact({2, 2, 32}, 100, 8, Kind::kOrdinary, KvFormat::kBf16);
  Cache coded({2, 2, 32}, 100, 8, Kind::kOrdinary, KvFormat::kInt8);
  ASSERT_EQ(exact.append(0, 100), 0U);
  ASSERT_EQ(coded.append(0, 100), 0U);
  const std::vector<Bf16> expected = exact.attend(kernel_table(Isa::kRef), 0, 100);
  const std::vector<Bf16> actual = coded.attend(kernel_table(Isa::kRef), 0, 100);
  double errors = 0;
  double squares = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double value = tensor::to_float(expected[i]);
    const double error = tensor::to_float(actual[i]) - value;
    errors += error * error;
    squares += value * value;
  }
  EXPECT_LT(std::sqrt(errors / squares), 0.02);
  EXPECT_GT(std::sqrt(errors / squares), 1e-4);
}

TEST(Attention, OfOneTokenIsItsValue) {
  const FloatModeScope mode;
  Cache cache({1, 1, 16}, 1, 3, Kind::kOrdinary);
  ASSERT_EQ(cache.append(0, 1), 0U);
  const std::vector<Bf16> out = cache.attend(kernel_table(Isa::kRef), 0, 1);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], tensor::to_bf16(cache.values()[i]));
  }
}

// In parts of one segment and of more, of one head and of several, of rows that begin and end in
// any segment: with each instruction set the bits of the whole context on `ref`.
TEST(Attention, AContextInPartsGivesTheSameBits) {
  const FloatModeScope mode;
  for (const KvFormat format : {KvFormat::kBf16, KvFormat::kInt8}) {
    for (const Shape& shape :
         {Shape{2, 2, 64}, Shape{1, 5, 16}, Shape{1, 1, 128}, Shape{5, 2, 32}}) {
      constexpr std::uint32_t length = 5 * kSegmentTokens + 77;
      Cache cache(shape, length, 5, Kind::kOrdinary, format);
      cache.soil();
      ASSERT_EQ(cache.append(0, length), 0U);
      struct Rows {
        std::size_t first;
        std::uint32_t count;
      };
      for (const Rows& at : {Rows{length - 1, 1},
                             Rows{2 * kSegmentTokens - 1, 1},
                             Rows{kSegmentTokens, 1},
                             Rows{4 * kSegmentTokens - 3, 40}}) {
        const auto from = static_cast<std::uint32_t>(at.first);
        const std::uint32_t rows = at.count;
        const std::vector<Bf16> whole = cache.attend(kernel_table(Isa::kRef), from, rows);
        const std::vector<float> wide = cache.attend_wide(kernel_table(Isa::kRef), from, rows);
        for (const MatmulTable& of : vector_tables()) {
          for (const std::uint32_t threads : {2U, 40U, 512U}) {
            if (threads == 2 && rows > 1) {
              continue;  // many rows are enough tiles for two
            }
            SCOPED_TRACE(of.name + " " + std::to_string(from) + " " + std::to_string(rows) + " " +
                         std::to_string(threads));
            const AttentionTeam team{threads, 1U << 14};
            expect_same_bits(cache.attend(*of.table, from, rows, team), whole);
            expect_same_bits(cache.attend_wide(*of.table, from, rows, team), wide);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace phalanx::kernels
