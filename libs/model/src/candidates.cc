// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/candidates.h"

#include "sampler_bounds.h"

namespace phalanx::model {
namespace {

void narrow(const kernels::VocabKeep& keep, kernels::VocabList* list) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < list->count; ++i) {
    if (kernels::is_kept(kernels::logit_key(list->logits[i]), list->ids[i], keep)) {
      list->logits[count] = list->logits[i];
      list->ids[count++] = list->ids[i];
    }
  }
  list->count = count;
}

}  // namespace

void Candidates::find(const kernels::KernelTable& kernels,
                      const kernels::VocabSlice& slice,
                      const kernels::VocabKeep& kept,
                      const CandidateFloors& floors,
                      float maximum) {
  keep = raised(kept, floors.counted);
  unlisted_mass = 0;
  if (is_listed) {
    narrow(keep, &list);
    return;
  }
  std::int64_t mass = 0;
  const std::uint32_t floor_key = kernels::logit_key(floors.listed);
  is_listed = kernels.vocab_list({slice, keep, floor_key, maximum}, &list, &mass);
  unlisted_mass = is_listed ? mass : 0;
}

CandidateLists::CandidateLists(std::uint32_t tokens, std::uint32_t threads, std::uint32_t rows_max)
    : rows_max_(rows_max),
      logits_(places(threads, rows_max) * tokens),
      ids_(logits_.size()),
      candidates_(places(threads, rows_max)) {
  for (std::size_t place = 0; place < candidates_.size(); ++place) {
    candidates_[place].list = {
        logits_.data() + place * tokens, ids_.data() + place * tokens, tokens, 0};
  }
}

std::size_t CandidateLists::heap_bytes(std::uint32_t tokens,
                                       std::uint32_t threads,
                                       std::uint32_t rows_max) {
  return places(threads, rows_max) *
         (sizeof(Candidates) + tokens * (sizeof(float) + sizeof(TokenId)));
}

void CandidateLists::begin() {
  for (Candidates& candidates : candidates_) {
    candidates.is_listed = false;
  }
}

Candidates& CandidateLists::of(std::uint32_t row, const RowPart& part) {
  Candidates& candidates = candidates_[part.parts == 1 ? row : std::size_t{rows_max_} + part.tile];
  const bool is_same = candidates.row == row && candidates.tokens.first == part.tokens.first &&
                       candidates.tokens.count == part.tokens.count;
  candidates.is_listed = candidates.is_listed && is_same;
  candidates.row = row;
  candidates.tokens = part.tokens;
  return candidates;
}

}  // namespace phalanx::model
