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

// A loop over registers: what it did, in operations. The empty asm hides each sum (and a factor,
// where products could be taken out of the loop) from the compiler, which would find the chains to
// be equal and keep one of them.
using Loop = double (*)(long loops);

__attribute__((target("avx2,fma"))) double fma_256(long loops) {
  __m256 sums[kChains] = {};
  const __m256 shrink = _mm256_set1_ps(0.75F);
  const __m256 add = _mm256_set1_ps(0.5F);
  for (long i = 0; i < loops; ++i) {
#pragma GCC unroll 12
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(sum, shrink, add);
      asm volatile("" : "+x"(sum));
    }
  }
  return static_cast<double>(loops) * kChains * 8 * 2;
}

__attribute__((target("avx512f"))) double fma_512(long loops) {
  __m512 sums[kChains] = {};
  const __m512 shrink = _mm512_set1_ps(0.75F);
  const __m512 add = _mm512_set1_ps(0.5F);
  for (long i = 0; i < loops; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(sum, shrink, add);
      asm volatile("" : "+v"(sum));
    }
  }
  return static_cast<double>(loops) * kChains * 16 * 2;
}

__attribute__((target("avx512f,avx512vnni"))) double vnni_512(long loops) {
  __m512i sums[kChains] = {};
  const __m512i weights = _mm512_set1_epi8(5);
  const __m512i codes = _mm512_set1_epi8(-3);
  for (long i = 0; i < loops; ++i) {
#pragma GCC unroll 12
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, weights, codes);
      asm volatile("" : "+v"(sum));
    }
  }
  return static_cast<double>(loops) * kChains * 64 * 2;
}

// Without VNNI: products of pairs and an addition.
__attribute__((target("avx2"))) double pairs_16_256(long loops) {
  __m256i sums[kChains] = {};
  __m256i weights = _mm256_set1_epi16(5);
  const __m256i codes = _mm256_set1_epi16(-3);
  for (long i = 0; i < loops; ++i) {
#pragma GCC unroll 12
    for (__m256i& sum : sums) {
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(weights, codes));
      asm volatile("" : "+x"(sum), "+x"(weights));
    }
  }
  return static_cast<double>(loops) * kChains * 16 * 2;
}

__attribute__((target("avx2"))) double pairs_8_256(long loops) {
  __m256i sums[kChains] = {};
  __m256i weights = _mm256_set1_epi8(5);
  const __m256i codes = _mm256_set1_epi8(-3);
  for (long i = 0; i < loops; ++i) {
#pragma GCC unroll 12
    for (__m256i& sum : sums) {
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights, codes));
      asm volatile("" : "+x"(sum), "+x"(weights));
    }
  }
  return static_cast<double>(loops) * kChains * 32 * 2;
}

__attribute__((target("avx512f,avx512bw"))) double pairs_16_512(long loops) {
  __m512i sums[kChains] = {};
  __m512i weights = _mm512_set1_epi16(5);
  const __m512i codes = _mm512_set1_epi16(-3);
  for (long i = 0; i < loops; ++i) {
#pragma GCC unroll 12
    for (__m512i& sum : sums) {
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(weights, codes));
      asm volatile("" : "+v"(sum), "+v"(weights));
    }
  }
  return static_cast<double>(loops) * kChains * 32 * 2;
}

__attribute__((target("avx512f,avx512bw"))) double pairs_8_512(long loops) {
  __m512i sums[kChains] = {};
  __m512i weights = _mm512_set1_epi8(5);
  const __m512i codes = _mm512_set1_epi8(-3);
  for (long i = 0; i < loops; ++i) {
#pragma GCC unroll 12
    for (__m512i& sum : sums) {
      sum = _mm512_add_epi16(sum, _mm512_maddubs_epi16(weights, codes));
      asm volatile("" : "+v"(sum), "+v"(weights));
    }
  }
  return static_cast<double>(loops) * kChains * 64 * 2;
}

// The loops of kernels of an instruction set.
struct Loops {
  Loop fma;
  Loop int8;
  Loop int4;
};

Loops loops_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Vnni:
      return {fma_512, vnni_512, vnni_512};
    case Isa::kAvx512:
      return {fma_512, pairs_16_512, pairs_8_512};
    case Isa::kAvx2:
    case Isa::kRef:
      break;
  }
  return {fma_256, pairs_16_256, pairs_8_256};
}

// Loads every line of [from, from + bytes) from `streams` places at once: how many are the fastest
// depends on the machine. `sink` keeps the compiler from leaving the loads out.
__attribute__((target("avx2"))) void read_lines(const std::byte* from,
                                                std::size_t bytes,
                                                std::size_t streams,
                                                std::atomic<int>& sink) {
  const std::size_t part = bytes / streams / 64 * 64;
  __m256i low = _mm256_setzero_si256();
  __m256i high = low;
  for (std::size_t at = 0; at < part; at += 64) {
    for (std::size_t stream = 0; stream < streams; ++stream) {
      const std::byte* line = from + stream * part + at;
      _mm_prefetch(reinterpret_cast<const char*>(line + kPrefetchAhead), _MM_HINT_T0);
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
    const double amount = loop(1) * static_cast<double>(kLoops);
    return best_rate(
        team, amount * team.size(), [&](std::uint32_t /*thread*/) { (void)loop(kLoops); });
  };
  const Loops loops = loops_of(isa);
  Peaks peaks;
  peaks.fma_flops = loop_rate(loops.fma);
  peaks.int8_ops = loop_rate(loops.int8);
  peaks.int4_ops = loops.int4 == loops.int8 ? peaks.int8_ops : loop_rate(loops.int4);
  const std::size_t part = buffer.size() / team.size() / 64 * 64;
  for (const std::size_t streams : {std::size_t{1}, std::size_t{4}}) {
    const double rate =
        best_rate(team, static_cast<double>(part) * team.size(), [&](std::uint32_t thread) {
          read_lines(buffer.data() + thread * part, part, streams, sink);
        });
    peaks.read_bytes = std::max(peaks.read_bytes, rate);
  }
  return peaks;
}

}  // namespace phalanx::bench
