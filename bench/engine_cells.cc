// SPDX-License-Identifier: Apache-2.0
#include "engine_cells.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <random>

#include "phalanx/base/check.h"

namespace phalanx::bench {
namespace {

constexpr std::uint32_t kWarmUp = 1;

// Tokens that a sequence ends with.
std::uint32_t length_of(const Cell& cell, const CellShape& shape) {
  return cell.is_prefill ? cell.tokens + 1 : cell.tokens + 1 + kWarmUp + shape.steps;
}

step::StepItem item_of(const step::SequenceAttach& sequence,
                       std::uint32_t start,
                       std::uint32_t count) {
  step::StepItem item;
  item.slot = sequence.slot;
  item.sequence = sequence.sequence;
  item.start = start;
  item.count = count;
  item.sample = start + count >= sequence.tokens.size();
  item.held_blocks = static_cast<std::uint32_t>(sequence.blocks.size());
  return item;
}

}  // namespace

std::vector<Cell> cells_of(const std::vector<std::uint32_t>& prompts,
                           const std::vector<std::uint32_t>& batches,
                           const std::vector<std::uint32_t>& contexts) {
  std::vector<Cell> cells;
  for (const std::uint32_t tokens : prompts) {
    cells.push_back({true, 1, tokens});
  }
  for (const std::uint32_t context : contexts) {
    for (const std::uint32_t batch : batches) {
      cells.push_back({false, batch, context});
    }
  }
  return cells;
}

std::uint32_t blocks_of(const Cell& cell, const CellShape& shape) {
  return cell.sequences * step::blocks_for(length_of(cell, shape));
}

step::RankLimits limits_for(const std::vector<Cell>& cells, const CellShape& shape) {
  PHALANX_CHECK(!cells.empty(), "nothing to measure");
  step::RankLimits limits{0, 0, shape.chunk, 0, shape.kv_format};
  for (const Cell& cell : cells) {
    limits.max_model_len = std::max(limits.max_model_len, length_of(cell, shape));
    limits.max_num_seqs = std::max(limits.max_num_seqs, cell.sequences);
    limits.max_num_batched_tokens = std::max(limits.max_num_batched_tokens, cell.sequences);
    limits.kv_blocks = std::max(limits.kv_blocks, blocks_of(cell, shape));
  }
  return limits;
}

Job job_of(const Cell& cell, const CellShape& shape, std::uint32_t vocab) {
  Job job;
  job.kv_format = shape.kv_format;
  std::minstd_rand random(1);
  const std::uint32_t blocks = blocks_of(cell, shape) / cell.sequences;
  for (std::uint32_t slot = 0; slot < cell.sequences; ++slot) {
    step::SequenceAttach sequence;
    sequence.slot = slot;
    sequence.sequence = slot + 1;
    sequence.tokens.resize(cell.is_prefill ? cell.tokens : cell.tokens + 1);
    std::generate(sequence.tokens.begin(), sequence.tokens.end(), [&] {
      return static_cast<TokenId>(random() % vocab);
    });
    sequence.prompt_tokens = static_cast<std::uint32_t>(sequence.tokens.size());
    sequence.sampling.temperature = 0.0F;
    sequence.blocks.resize(blocks);
    std::iota(sequence.blocks.begin(), sequence.blocks.end(), slot * blocks);
    job.sequences.push_back(std::move(sequence));
  }
  if (cell.is_prefill) {
    for (std::uint32_t at = 0; at < cell.tokens; at += shape.chunk) {
      job.steps.push_back({item_of(job.sequences[0], at, std::min(shape.chunk, cell.tokens - at))});
    }
    return job;
  }
  job.warm_up = kWarmUp;
  for (std::uint32_t i = 0; i < kWarmUp + shape.steps; ++i) {
    std::vector<step::StepItem>& items = job.steps.emplace_back();
    for (const step::SequenceAttach& sequence : job.sequences) {
      items.push_back(item_of(sequence, cell.tokens + i, 1));
    }
  }
  return job;
}

double tokens_of(const Job& job) {
  double tokens = 0;
  for (std::size_t i = job.warm_up; i < job.steps.size(); ++i) {
    for (const step::StepItem& item : job.steps[i]) {
      tokens += item.count;
    }
  }
  return tokens;
}

Limit limit_of_job(const checkpoint::ModelConfig& config, const Job& job, const Peaks& peaks) {
  double seconds = 0;
  double reading = 0;
  for (std::size_t i = job.warm_up; i < job.steps.size(); ++i) {
    const Limit limit = limit_of(work_of(config, job.steps[i], job.kv_format), peaks);
    seconds += limit.seconds;
    reading += limit.by_reading ? limit.seconds : 0;
  }
  return {seconds, 2 * reading > seconds};
}

Spread spread_of(std::vector<double> samples) {
  PHALANX_CHECK(!samples.empty(), "no samples");
  std::sort(samples.begin(), samples.end());
  const std::size_t half = samples.size() / 2;
  const double median =
      samples.size() % 2 == 1 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
  return {median, samples.front(), samples.back()};
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Result<std::vector<std::uint32_t>> parse_numbers(const std::string& option,
                                                 const std::string& text,
                                                 std::uint32_t min,
                                                 std::uint32_t max) {
  std::vector<std::uint32_t> numbers;
  for (const std::string& part : split(text)) {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || end != part.data() + part.size() || number < min || number > max) {
      return invalid_argument(option + ": expected numbers from " + std::to_string(min) + " to " +
                              std::to_string(max) + " with commas between them, found \"" + part +
                              "\"");
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace phalanx::bench
