// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/sim_runner.h"

#include <algorithm>

#include "phalanx/base/check.h"
#include "phalanx/base/hash.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"

namespace phalanx::engine {

SimRunner::SimRunner(const SimOptions& options, SimHost& host) : options_(options), host_(host) {
  PHALANX_CHECK(options.token_count > 0, "a vocabulary without tokens");
  counters_.preparations = 1;
}

TokenId SimRunner::draw(const step::SequenceRow& sequence, std::uint32_t position) const {
  const std::uint64_t word = Fingerprint()
                                 .add(sequence.sampling.seed)
                                 .add((std::uint64_t{sequence.choice} << 32) | position)
                                 .value();
  const auto first = static_cast<std::uint32_t>(word % options_.token_count);
  const auto stops = std::span(sequence.masked).first(sequence.masked_count);
  const auto token = [&](std::uint32_t skipped) {
    return static_cast<TokenId>((first + skipped) % options_.token_count);
  };
  for (std::uint32_t skipped = 0; skipped < options_.token_count; ++skipped) {
    if (std::find(stops.begin(), stops.end(), token(skipped)) == stops.end()) {
      return token(skipped);
    }
  }
  return token(0);
}

Result<RunnerIdentity> SimRunner::identity() {
  const std::uint64_t print = Fingerprint().add_text("sim").add(options_.token_count).value();
  return RunnerIdentity{print, print};
}

Status SimRunner::init(Epoch epoch) {
  return host_.join(epoch);
}

Status SimRunner::sanity() {
  return host_.sanity();
}

Status SimRunner::step(const step::SequenceTable& table,
                       std::span<const step::StepItem> items,
                       std::span<step::SampleResult> results) {
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const step::StepItem& item = items[i];
    tokens += item.count;
    if (item.sample) {
      results[i].token = draw(table.row(item.slot), item.start + item.count);
      results[i].logprob = 0.0F;
      results[i].top_count = 0;
    }
  }
  const Duration modelled = options_.step + options_.token * tokens;
  PHALANX_RETURN_IF_ERROR(host_.wait(modelled));
  counters_.compute_us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(modelled).count());
  return host_.barrier();
}

Status SimRunner::clear(bool /*zero_kv*/) {
  return ok();
}

}  // namespace phalanx::engine
