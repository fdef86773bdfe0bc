// SPDX-License-Identifier: Apache-2.0
#include "engine_peaks.h"

#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "phalanx/base/check.h"

namespace phalanx::bench {
namespace {

using kernels::Isa;

constexpr int kTries = 3;
constexpr long kLoops = 4'000'000;
// Independent chains: more than latency times throughput of any of these instructions, and few
// enough for sixteen registers.
constexpr int kChains = 12;
constexpr std::size_t kLeastBuffer = std::size_t{256} << 20;
constexpr std::size_t kCachesOfBuffer = 2;
constexpr std::size_t kPrefetchAhead = 2048;

using Loop = double (*)(long loops);

// A loop over registers: what it did, in operations. The empty asm hides each sum (and a factor,
// where products could be taken out of the loop) from the compiler, which would find the chains to
// be equal and keep one of them. A macro, because intrinsics are inlined only into functions that
// name their instruction set.
#define PHALANX_PEAK_LOOP(name, features, Register, multiple, factor, next, operations) \
  __attribute__((target(features))) double name(long loops) {                           \
    Register sums[kChains] = {};                                                        \
    Register a = multiple;                                                              \
    const Register b = factor;                                                          \
    for (long i = 0; i < loops; ++i) {                                                  \
      _Pragma("GCC unroll 12") for (Register & sum : sums) {                            \
        sum = next;                                                                     \
        asm volatile("" : "+v"(sum), "+v"(a));                                          \
      }                                                                                 \
    }                                                                                   \
    return static_cast<double>(loops) * kChains * (operations);                         \
  }

PHALANX_PEAK_LOOP(fma_256,
                  "avx2,fma",
                  __m256,
                  _mm256_set1_ps(0.75F),
                  _mm256_set1_ps(0.5F),
                  _mm256_fmadd_ps(sum, a, b),
                  8 * 2)
PHALANX_PEAK_LOOP(fma_512,
                  "avx512f",
                  __m512,
                  _mm512_set1_ps(0.75F),
                  _mm512_set1_ps(0.5F),
                  _mm512_fmadd_ps(sum, a, b),
                  16 * 2)
PHALANX_PEAK_LOOP(pairs_bf16_512,
                  "avx512f,avx512bf16",
                  __m512,
                  _mm512_set1_ps(0.75F),
                  _mm512_set1_ps(0.5F),
                  _mm512_dpbf16_ps(sum,
                                   __builtin_bit_cast(__m512bh, a),
                                   __builtin_bit_cast(__m512bh, b)),
                  32 * 2)
PHALANX_PEAK_LOOP(vnni_512,
                  "avx512f,avx512vnni",
                  __m512i,
                  _mm512_set1_epi8(5),
                  _mm512_set1_epi8(-3),
                  _mm512_dpbusd_epi32(sum, a, b),
                  64 * 2)
PHALANX_PEAK_LOOP(vnni_256,
                  "avx2,avxvnni",
                  __m256i,
                  _mm256_set1_epi8(5),
                  _mm256_set1_epi8(-3),
                  _mm256_dpbusd_avx_epi32(sum, a, b),
                  32 * 2)
// Without VNNI: products of pairs and an addition.
PHALANX_PEAK_LOOP(pairs_16_256,
                  "avx2",
                  __m256i,
                  _mm256_set1_epi16(5),
                  _mm256_set1_epi16(-3),
                  _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)),
                  16 * 2)
PHALANX_PEAK_LOOP(pairs_8_256,
                  "avx2",
                  __m256i,
                  _mm256_set1_epi8(5),
                  _mm256_set1_epi8(-3),
                  _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, b)),
                  32 * 2)
PHALANX_PEAK_LOOP(pairs_16_512,
                  "avx512f,avx512bw",
                  __m512i,
                  _mm512_set1_epi16(5),
                  _mm512_set1_epi16(-3),
                  _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)),
                  32 * 2)
PHALANX_PEAK_LOOP(pairs_8_512,
                  "avx512f,avx512bw",
                  __m512i,
                  _mm512_set1_epi8(5),
                  _mm512_set1_epi8(-3),
                  _mm512_add_epi16(sum, _mm512_maddubs_epi16(a, b)),
                  64 * 2)

#undef PHALANX_PEAK_LOOP

// The operand of LDTILECFG: all tiles of the largest shape.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Products of four pairs of tiles, on numbers that are not zeros: those would be faster. The
// intrinsics do not say that they read memory.
#define PHALANX_TILE_LOOP(name, product, operations)                              \
  __attribute__((target("amx-tile,amx-int8,amx-bf16"))) double name(long loops) { \
    alignas(64) std::uint8_t numbers[1024];                                       \
    for (std::size_t i = 0; i < sizeof(numbers); ++i) {                           \
      numbers[i] = static_cast<std::uint8_t>(i % 2 == 0 ? i * 37 : 0x3F);         \
    }                                                                             \
    const TileConfig config;                                                      \
    asm volatile("" : : "r"(&config), "r"(numbers) : "memory");                   \
    _tile_loadconfig(&config);                                                    \
    _tile_loadd(4, numbers, 64);                                                  \
    _tile_loadd(5, numbers, 64);                                                  \
    _tile_loadd(6, numbers, 64);                                                  \
    _tile_loadd(7, numbers, 64);                                                  \
    for (long i = 0; i < loops / kTileShare; ++i) {                               \
      product(0, 4, 6);                                                           \
      product(1, 4, 7);                                                           \
      product(2, 5, 6);                                                           \
      product(3, 5, 7);                                                           \
    }                                                                             \
    _tile_release();                                                              \
    return static_cast<double>(loops / kTileShare) * 4 * (operations);            \
  }

// One product is many instructions of other loops.
constexpr long kTileShare = 8;
PHALANX_TILE_LOOP(bf16_tiles, _tile_dpbf16ps, 16 * 16 * 32 * 2)
PHALANX_TILE_LOOP(int8_tiles, _tile_dpbssd, 16 * 16 * 64 * 2)

#undef PHALANX_TILE_LOOP

// The loops of kernels of an instruction set.
struct Loops {
  Loop fma;
  Loop int8;
  Loop int4;
  Loop bf16;
};

Loops loops_of(Isa isa) {
  switch (isa) {
    case Isa::kAmx:
      return {fma_512, int8_tiles, int8_tiles, bf16_tiles};
    case Isa::kAvx512Bf16:
      return {fma_512, vnni_512, vnni_512, pairs_bf16_512};
    case Isa::kAvx512Vnni:
      return {fma_512, vnni_512, vnni_512, fma_512};
    case Isa::kAvx512:
      return {fma_512, pairs_16_512, pairs_8_512, fma_512};
    case Isa::kAvxVnni:
      return {fma_256, vnni_256, vnni_256, fma_256};
    case Isa::kAvx2:
    case Isa::kRef:
      break;
  }
  return {fma_256, pairs_16_256, pairs_8_256, fma_256};
}

// From how many places at once lines are loaded, and how many bytes ahead of the loads instructions
// fetch them; 0 leaves that to the processor.
struct ReadPattern {
  std::size_t streams;
  std::size_t ahead;
};
// Which is the fastest depends on the machine.
constexpr ReadPattern kReadPatterns[] = {
    {1, kPrefetchAhead}, {4, kPrefetchAhead}, {1, 0}, {2, 0}, {4, 0}};

// Loads every line of [from, from + bytes). `sink` keeps the compiler from leaving the loads out.
__attribute__((target("avx2"))) void read_lines(const std::byte* from,
                                                std::size_t bytes,
                                                ReadPattern pattern,
                                                std::atomic<int>& sink) {
  const std::size_t part = bytes / pattern.streams / 64 * 64;
  __m256i low = _mm256_setzero_si256();
  __m256i high = low;
  for (std::size_t at = 0; at < part; at += 64) {
    for (std::size_t stream = 0; stream < pattern.streams; ++stream) {
      const std::byte* line = from + stream * part + at;
      if (pattern.ahead != 0) {
        _mm_prefetch(reinterpret_cast<const char*>(line + pattern.ahead), _MM_HINT_T0);
      }
      low = _mm256_xor_si256(low, _mm256_load_si256(reinterpret_cast<const __m256i*>(line)));
      high = _mm256_xor_si256(high, _mm256_load_si256(reinterpret_cast<const __m256i*>(line + 32)));
    }
  }
  sink += _mm256_extract_epi32(_mm256_xor_si256(low, high), 0);
}

// The best rate of a few tries of body(thread) on all threads, which do `amount` in all.
template <typename Body>
double best_rate(kernels::ThreadTeam& team, double amount, const Body& body) {
  double best = 0.0;
  for (int i = 0; i < kTries; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    const bool finished = team.parallel_for(
        team.size(), [&](std::uint32_t tile, std::uint32_t /*thread*/) { body(tile); });
    PHALANX_CHECK(finished, "nobody stops this team");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    best = std::max(best, amount / took.count());
  }
  return best;
}

}  // namespace

std::size_t read_buffer_bytes() {
  const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::max(kLeastBuffer, kCachesOfBuffer * static_cast<std::size_t>(std::max(cache, 0L)));
}

Peaks measure_peaks(kernels::ThreadTeam& team, Isa isa, std::span<const std::byte> buffer) {
  std::atomic<int> sink{0};
  const auto loop_rate = [&](Loop loop) {
    const double amount = loop(kTileShare) / kTileShare * static_cast<double>(kLoops);
    return best_rate(
        team, amount * team.size(), [&](std::uint32_t /*thread*/) { (void)loop(kLoops); });
  };
  const Loops loops = loops_of(isa);
  Peaks peaks;
  peaks.fma_flops = loop_rate(loops.fma);
  peaks.int8_ops = loop_rate(loops.int8);
  peaks.int4_ops = loops.int4 == loops.int8 ? peaks.int8_ops : loop_rate(loops.int4);
  peaks.bf16_flops = loops.bf16 == loops.fma ? peaks.fma_flops : loop_rate(loops.bf16);
  const std::size_t part = buffer.size() / team.size() / 64 * 64;
  for (const ReadPattern& pattern : kReadPatterns) {
    const double rate =
        best_rate(team, static_cast<double>(part) * team.size(), [&](std::uint32_t thread) {
          read_lines(buffer.data() + thread * part, part, pattern, sink);
        });
    peaks.read_bytes = std::max(peaks.read_bytes, rate);
  }
  return peaks;
}

}  // namespace phalanx::bench
