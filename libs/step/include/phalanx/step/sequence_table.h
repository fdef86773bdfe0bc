// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/step/item.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sequence_row.h"
#include "phalanx/step/table_digest.h"

namespace phalanx::step {

// The live sequences of one rank by slot: the only table there is. Commands of the replica write
// it, kernels and sampler read inputs, positions, blocks and sampling from it, and what hash()
// reports is made from the values as they lie in it (S9).
//
// A slot's block table grows by what each step brings: an item names how many blocks it takes the
// rank to have already, and any other number is refused. So a table is either exactly what the
// replica believes it is, or the next command to that slot fails; it is made anew by clear() and
// attach(), which every new epoch begins with.
//
// The memory is the caller's and outlives the table; copies are not made.
// Threads: one writer; concurrent reads between writes.
// Errors:  a command that contradicts the table is kFailedPrecondition, names both, and changes
//          nothing.
// Cost:    nothing here allocates but the constructor.
class SequenceTable {
 public:
  [[nodiscard]] static std::size_t bytes_for(const RankLimits& limits);

  // Any contents are overwritten.
  //
  // Errors: kInvalidArgument  memory too small or misaligned
  [[nodiscard]] static Result<SequenceTable> map(std::span<std::byte> memory,
                                                 const RankLimits& limits,
                                                 std::uint32_t vocab);
  SequenceTable(SequenceTable&&) noexcept = default;
  SequenceTable& operator=(SequenceTable&&) noexcept = default;
  SequenceTable(const SequenceTable&) = delete;
  SequenceTable& operator=(const SequenceTable&) = delete;
  ~SequenceTable() = default;

  [[nodiscard]] const RankLimits& limits() const { return limits_; }
  [[nodiscard]] std::uint32_t vocab() const { return vocab_; }
  [[nodiscard]] std::span<const std::byte> memory() const { return memory_; }
  [[nodiscard]] bool contains(std::uint32_t slot) const { return digest_.contains(slot); }

  // These three require contains(slot). Tokens include what has been sampled since.
  [[nodiscard]] const SequenceRow& row(std::uint32_t slot) const;
  [[nodiscard]] std::span<const TokenId> tokens(std::uint32_t slot) const;
  [[nodiscard]] std::span<const std::uint32_t> blocks(std::uint32_t slot) const;

  [[nodiscard]] Status attach(const SequenceAttach& sequence);
  [[nodiscard]] Status detach(std::uint32_t slot);  // detaching a free slot is no error
  void clear();

  // Is this row range of a step one that the table can serve?
  [[nodiscard]] Status check(const StepItem& item) const;

  // Takes the item's new blocks. Requires check(item).
  void extend(const StepItem& item);

  // Requires contains(slot) and room for it.
  void append(std::uint32_t slot, TokenId token);

  [[nodiscard]] std::uint64_t hash(std::span<const StepItem> items) const {
    return digest_.hash(items);
  }

 private:
  SequenceTable(std::span<std::byte> memory, const RankLimits& limits, std::uint32_t vocab);

  [[nodiscard]] bool names_what_there_is(const SequenceAttach& sequence) const;
  [[nodiscard]] Status check_attach(const SequenceAttach& sequence) const;
  [[nodiscard]] Status check_blocks(const StepItem& item) const;
  [[nodiscard]] std::byte* at(std::uint32_t slot) const;
  [[nodiscard]] SequenceRow& writable_row(std::uint32_t slot) const;
  [[nodiscard]] TokenId* token_memory(std::uint32_t slot) const;
  [[nodiscard]] std::uint32_t* block_memory(std::uint32_t slot) const;

  std::span<std::byte> memory_;
  RankLimits limits_;
  std::uint32_t vocab_ = 0;
  std::size_t row_bytes_ = 0;
  TableDigest digest_;
};

}  // namespace phalanx::step
