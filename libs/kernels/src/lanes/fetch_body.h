// SPDX-License-Identifier: Apache-2.0
#pragma once

// How weights, keys and values come into the cache before they are read. Products of bf16, those of
// keys and values too, call begin_block() for each block of K that they read of some strips, and
// line() of what it returns for each cache line of it, of which of the strips and at which element
// of the block. Products of integers call begin_codes() for each 32 elements of K, and line() of
// what it returns; those of a few rows before it begin_strip() for each strip, whose scales are its
// head, or FetchPages::read_head().
//
// To g++ a fetch has no effect: it drops the call of a function that does nothing else. So whatever
// fetches is PHALANX_LANES.

#include <cstddef>
#include <cstdint>

#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

// So few rows, of one strip at a time, wait for memory. Their loops are not unrolled: g++ gathers
// what it unrolls, lines that are fetched too, and memory gives up to a tenth less then. Where only
// first lines of pages are fetched, one row of int4 or int8 takes 3 % longer if two steps are one
// (Zen 4).
inline constexpr std::size_t kFewBlockRows = 4;

PHALANX_LANES void fetch_all(const void* first, std::size_t bytes) {
  for (std::size_t offset = 0; offset < bytes; offset += 64) {
    prefetch(static_cast<const std::byte*>(first) + offset);
  }
}

PHALANX_LANES void fetch_all_to_second(const void* first, std::size_t bytes) {
  for (std::size_t offset = 0; offset < bytes; offset += 64) {
    prefetch_second(static_cast<const std::byte*>(first) + offset);
  }
}

// Runs of lines, and how many bytes lie between two of them.
struct FetchRun {
  const std::byte* first;
  std::size_t lines;  // of a run
  std::size_t runs;
  std::size_t gap;
};

// The second cache has room for what is read after the next panel, too, and a request to it does
// not keep the first one from others: products that compute wait for memory a third less (Zen 4).
enum class CacheLevel { kFirst, kSecond };

template <CacheLevel kLevel>
PHALANX_LANES void fetch_to(const void* line) {
  if constexpr (kLevel == CacheLevel::kFirst) {
    prefetch(line);
  } else {
    prefetch_second(line);
  }
}

// While lines of the first strip are read, those that lie `ahead` bytes from them. 0 fetches what
// is being read: there is no time for a question.
template <CacheLevel kLevel>
struct LinesAhead {
  std::uintptr_t ahead;

  PHALANX_LANES void line(const void* read, std::size_t strip, std::size_t /*k*/) const {
    if (strip == 0) {
      const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(read) + ahead;
      // NOLINTNEXTLINE(performance-no-int-to-ptr): it may lie in another object
      fetch_to<kLevel>(reinterpret_cast<const void*>(at));
    }
  }
};

// What is read is left to the processor, which fetches ahead of streams by itself.
struct FetchNothing {
  template <CacheLevel>
  PHALANX_LANES const FetchNothing& begin_block(const void* /*read*/) const {
    return *this;
  }
  PHALANX_LANES void begin_strip(const void* /*head*/, std::size_t /*bytes*/) const {}
  template <std::size_t, std::size_t>
  PHALANX_LANES const FetchNothing& begin_codes(const void* /*read*/) const {
    return *this;
  }
  PHALANX_LANES void line(const void* /*read*/, std::size_t /*strip*/, std::size_t /*k*/) const {}
};

// For a single run that is read from its beginning to its end, and a processor that fetches ahead
// of what it reads by itself as far as a page goes: only the first eight lines of each page, one
// for each eight that are read. Remembers nothing from block to block: what is to be fetched
// follows from what is read.
class FetchPages {
 public:
  // What lies `lead` lines, two pages or more, ahead of what is read of `own` is fetched, behind
  // its end from `later` on. The first `now` lines of its own come at once: nothing is read while
  // rows are taken. Requires now ≤ own.lines.
  PHALANX_LANES FetchPages(const FetchRun& own,
                           std::size_t now,
                           std::size_t lead,
                           const FetchRun& later)
      : ahead_(lead * 64),
        end_(reinterpret_cast<std::uintptr_t>(own.first) + own.lines * 64),
        gap_(reinterpret_cast<std::uintptr_t>(later.first) - end_) {
    fetch_all(own.first, now * 64);
  }

  // By itself a processor goes on over no gap, such as scales that are read one by one beside
  // codes; read_head() is for who has read the head to its end before the codes.
  PHALANX_LANES void begin_strip(const void* head, std::size_t bytes) const {
    fetch_all(head, bytes);
    fetch_beside(head, bytes);
  }
  PHALANX_LANES void read_head(const void* head, std::size_t bytes) const {
    fetch_beside(head, bytes);
  }
  template <CacheLevel>
  PHALANX_LANES FetchNothing begin_block(const void* read) const {
    constexpr std::size_t kBytes = 16 * 64;  // 32 elements of K of a strip
    fetch_beside(read, kBytes);
    return {};
  }
  template <std::size_t, std::size_t kLines>
  PHALANX_LANES FetchNothing begin_codes(const void* read) const {
    fetch_beside(read, kLines * 64);
    return {};
  }

 private:
  static constexpr std::uintptr_t kPage = 4096;
  static constexpr std::uintptr_t kEach = kPage / 8;

  PHALANX_LANES void fetch_beside(const void* read, std::size_t bytes) const {
    for (std::size_t offset = 0; offset < bytes; offset += kEach) {
      std::uintptr_t at = reinterpret_cast<std::uintptr_t>(read) + offset + ahead_;
      at += at < end_ ? 0 : gap_;
      if (at % kEach < bytes - offset) {  // not where the block before has done it
        // NOLINTNEXTLINE(performance-no-int-to-ptr): it may lie in another object
        prefetch_second(reinterpret_cast<const std::byte*>(at / kPage * kPage + at % kPage / 8));
      }
    }
  }

  std::uintptr_t ahead_;  // bytes
  std::uintptr_t end_;
  std::uintptr_t gap_;  // bytes from the end to what is read then
};

// For a few rows more, which compute for about as long as memory takes: what is computed between
// two lines keeps such a processor from reading ahead by itself. Beside each line that is read
// comes the one that is read `lead` lines later, into the second cache: asked for in bursts, lines
// come a tenth to a third later (Zen 4).
class FetchLines {
 public:
  // Of `own`, run after run, and then of `later`. Of runs that are shorter than `lead` it is as
  // many lines as they have.
  PHALANX_LANES FetchLines(const FetchRun& own, std::size_t lead, const FetchRun& later)
      : ahead_((lead < own.lines ? lead : own.lines) * 64),
        end_(reinterpret_cast<std::uintptr_t>(own.first) + own.lines * 64),
        gap_(own.gap),
        stride_(own.lines * 64 + own.gap),
        runs_(own.runs),
        heads_(own.runs == 1),
        later_(reinterpret_cast<std::uintptr_t>(later.first)) {
    end_run();
  }

  PHALANX_LANES void begin_strip(const void* head, std::size_t bytes) {
    if (heads_) {
      const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(head) + ahead_of(head);
      // NOLINTNEXTLINE(performance-no-int-to-ptr): it may lie in another object
      fetch_all_to_second(reinterpret_cast<const void*>(at), bytes);
    }
  }
  template <CacheLevel>
  PHALANX_LANES LinesAhead<CacheLevel::kSecond> begin_block(const void* read) {
    return {ahead_of(read)};
  }
  template <std::size_t, std::size_t>
  PHALANX_LANES LinesAhead<CacheLevel::kSecond> begin_codes(const void* read) {
    return {ahead_of(read)};
  }

 private:
  PHALANX_LANES std::uintptr_t ahead_of(const void* read) {
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(read);
    if (at >= end_) {
      --runs_;
      end_ += stride_;
      end_run();
    }
    return ahead_ + (at + ahead_ < end_ ? 0 : gap_);
  }
  // What follows the last run is `later`.
  PHALANX_LANES void end_run() {
    if (runs_ == 1) {
      gap_ = later_ - end_;
    }
  }

  std::uintptr_t ahead_;   // bytes
  std::uintptr_t end_;     // of the run that is read
  std::uintptr_t gap_;     // bytes from there to what is read then
  std::uintptr_t stride_;  // from run to run
  std::size_t runs_;       // from this one on
  bool heads_;             // of strips lie in the run
  std::uintptr_t later_;
};

// Lines that are read later: some of them with each block of K, so that memory is read while the
// cache is computed on.
class FetchLater {
 public:
  // All runs, while `blocks` blocks are multiplied.
  PHALANX_LANES static FetchLater all_of(const FetchRun& later,
                                         std::size_t blocks,
                                         CacheLevel level) {
    return {level,
            later.first,
            later.lines * later.runs,
            blocks,
            later.lines,
            static_cast<std::ptrdiff_t>(later.gap),
            later.lines};
  }

  // As many lines as `own`, a single run, has: from line `lead` to its end, and then on at `later`,
  // to the end of its first run.
  // Requires lead < own.lines.
  PHALANX_LANES static FetchLater through(const FetchRun& own,
                                          std::size_t lead,
                                          const FetchRun& later,
                                          std::size_t blocks,
                                          CacheLevel level) {
    const std::ptrdiff_t gap = later.first - (own.first + own.lines * 64);
    const std::size_t left = own.lines - lead;
    const std::size_t both = left + later.lines;
    const std::size_t lines = both < own.lines ? both : own.lines;
    return {level, own.first + lead * 64, lines, blocks, left, gap, later.lines};
  }

  // And then, spread over the same blocks, `lines` from `first` on. For all_of() `runs` runs.
  PHALANX_LANES void and_then(const std::byte* first,
                              std::size_t lines,
                              std::size_t runs,
                              std::size_t blocks) {
    runs_ = runs;
    then_ = reinterpret_cast<std::uintptr_t>(first);
    left_ += lines;
    per_block_ = (left_ + blocks - 1) / blocks;
  }

  // What is left while the next `blocks` blocks are multiplied, which are the last ones.
  PHALANX_LANES void end_with(std::size_t blocks) { per_block_ = (left_ + blocks - 1) / blocks; }

  PHALANX_LANES void begin_strip(const void* /*head*/, std::size_t /*bytes*/) const {}

  // For a block of 32 elements of bf16, 16 lines of a strip from `read` on: either as many are
  // fetched with it or none, so that on the whole there is a share for each block.
  template <CacheLevel kLevel>
  PHALANX_LANES LinesAhead<kLevel> begin_block(const void* read) {
    constexpr std::size_t kLines = 16;
    if (per_block_ > kLines) {
      fetch<kLevel>(take_share());
      return {0};
    }
    return lines_beside<kLevel, kLines>(read, per_block_);
  }

  // For a block of 32 elements of integers, kLines lines of each of kStrips strips, the first from
  // `read` on. Who reads strips one by one waits for memory: all lines of the block are fetched as
  // it begins. Several meet so many rows that lines come into the second cache, one beside each
  // line of the first strip: memory gives two threads up to 6 % more than for bursts (Zen 4).
  template <std::size_t kStrips, std::size_t kLines>
  PHALANX_LANES auto begin_codes(const void* read) {
    if constexpr (kStrips == 1) {
      block();
      return FetchNothing{};
    } else {
      std::size_t share = per_block_;
      if (share > kLines) {
        const std::size_t more = share - kLines;
        const std::size_t lines = more < left_ ? more : left_;
        left_ -= lines;
        fetch<CacheLevel::kSecond>(lines);
        share = kLines;
      }
      return lines_beside<CacheLevel::kSecond, kLines>(read, share);
    }
  }

  PHALANX_LANES void block() {
    const std::size_t lines = take_share();
    if (level_ == CacheLevel::kSecond) {
      fetch<CacheLevel::kSecond>(lines);
    } else {
      fetch<CacheLevel::kFirst>(lines);
    }
  }

 private:
  static constexpr std::size_t kNoEnd = SIZE_MAX;

  PHALANX_LANES FetchLater(CacheLevel level,
                           const std::byte* first,
                           std::size_t lines,
                           std::size_t blocks,
                           std::size_t run_left,
                           std::ptrdiff_t gap,
                           std::size_t run)
      : level_(level),
        next_(reinterpret_cast<std::uintptr_t>(first)),
        left_(lines),
        per_block_((lines + blocks - 1) / blocks),
        run_left_(run_left),
        gap_(gap),
        run_(run) {}

  // Beside each of the kLines lines from `read` on a line that is fetched, or none, so that on the
  // whole it is `share` a call.
  template <CacheLevel kLevel, std::size_t kLines>
  PHALANX_LANES LinesAhead<kLevel> lines_beside(const void* read, std::size_t share) {
    due_ += share;
    if (due_ < kLines || left_ == 0) {
      return {0};
    }
    due_ -= kLines;
    const std::uintptr_t ahead = next_ - reinterpret_cast<std::uintptr_t>(read);
    const std::size_t lines = kLines < run_left_ ? kLines : run_left_;
    left_ -= lines < left_ ? lines : left_;
    next_ += lines * 64;
    run_left_ -= lines;
    if (run_left_ == 0) {
      begin_run();
    }
    return {ahead};
  }

  PHALANX_LANES std::size_t take_share() {
    const std::size_t lines = per_block_ < left_ ? per_block_ : left_;
    left_ -= lines;
    return lines;
  }

  PHALANX_LANES void begin_run() {
    if (--runs_ == 0) {
      next_ = then_;
      run_left_ = kNoEnd;
    } else {
      next_ += static_cast<std::uintptr_t>(gap_);
      run_left_ = run_;
    }
  }

  // Works on copies: to g++ a fetch may look at the members.
  template <CacheLevel kLevel>
  PHALANX_LANES void fetch(std::size_t lines) {
    std::uintptr_t next = next_;
    std::size_t run_left = run_left_;
    for (; lines > 0; --lines) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): see next_
      fetch_to<kLevel>(reinterpret_cast<const std::byte*>(next));
      next += 64;
      if (--run_left == 0) {
        next_ = next;
        begin_run();
        next = next_;
        run_left = run_left_;
      }
    }
    next_ = next;
    run_left_ = run_left;
  }

  CacheLevel level_;           // of block()
  std::uintptr_t next_;        // an address: what lies behind the last run is nowhere
  std::size_t left_;           // lines
  std::size_t per_block_;      // lines
  std::size_t due_ = 0;        // lines that begin_block() is behind
  std::size_t run_left_;       // lines to the end of this run
  std::ptrdiff_t gap_;         // bytes from there to the next run
  std::size_t run_;            // lines of the runs after this one
  std::size_t runs_ = kNoEnd;  // up to what is fetched then
  std::uintptr_t then_ = 0;
};

}  // namespace
}  // namespace phalanx::kernels
