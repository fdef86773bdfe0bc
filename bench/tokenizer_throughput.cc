// SPDX-License-Identifier: Apache-2.0
// Bytes of text that a core tokenizes in a second of its time: English, and the slowest of a grid
// of hostile inputs. One line of JSON.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/tokenizer/tokenizer.h"

#include "machine.h"
#include "tokenizer_inputs.h"
#include "usage.h"

namespace phalanx::bench {
namespace {

constexpr int kRepetitions = 3;
constexpr char kUsage[] =
    "usage: tokenizer_throughput FOLDER [KIB [SHOWN]]\n"
    "a folder with tokenizer.json, KiB of each input (256), how many of the slowest are listed "
    "(10)";

// Processor time of this thread, which does not count what else runs on the core.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Of the fastest repetition: the others only show what disturbed them.
double megabytes_per_second(const tokenizer::Tokenizer& tokenizer, const std::string& text) {
  double best = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    const double begin = cpu_seconds();
    const auto ids = tokenizer.encode(text);
    const double took = cpu_seconds() - begin;
    if (!ids) {
      std::fprintf(stderr, "%s\n", ids.error().to_string().c_str());
      std::exit(70);
    }
    best = std::max(best, static_cast<double>(text.size()) / took / 1e6);
  }
  return best;
}

int run(const std::string& path, std::size_t bytes, std::size_t shown) {
  const std::string machine = machine_json();
  const auto tokenizer = tokenizer::load_tokenizer(path);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().to_string().c_str());
    return 66;
  }
  const double english = megabytes_per_second(**tokenizer, english_text(bytes * 4).text);
  std::vector<std::pair<double, std::string>> rates;
  for (const TokenizerInput& input : hostile_texts(**tokenizer, bytes)) {
    rates.emplace_back(megabytes_per_second(**tokenizer, input.text), input.name);
  }
  std::sort(rates.begin(), rates.end());
  std::string slowest;
  for (std::size_t i = 0; i < std::min(shown, rates.size()); ++i) {
    char entry[160];
    std::snprintf(entry,
                  sizeof entry,
                  "%s{\"input\":\"%s\",\"mb_per_s\":%.2f}",
                  i == 0 ? "" : ",",
                  rates[i].second.c_str(),
                  rates[i].first);
    slowest += entry;
  }
  std::printf(
      "{\"bench\":\"tokenizer_throughput\",\"vocabulary\":%zu,\"english_mb_per_s\":%.1f,"
      "\"inputs\":%zu,\"slowest\":[%s],%s}\n",
      (*tokenizer)->vocab_size(),
      english,
      rates.size(),
      slowest.c_str(),
      machine.c_str());
  return 0;
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  if (phalanx::bench::asks_for_help(argc, argv)) {
    std::puts(phalanx::bench::kUsage);
    return 0;
  }
  const auto kib = phalanx::bench::number_at(argc, argv, 2, 256, 1, 1 << 18);
  const auto shown = phalanx::bench::number_at(argc, argv, 3, 10, 1, 1'000'000);
  if (argc < 2 || argc > 4 || !kib || !shown) {
    std::fprintf(stderr, "%s\n", phalanx::bench::kUsage);
    return 64;
  }
  return phalanx::bench::run(
      argv[1], static_cast<std::size_t>(*kib) << 10, static_cast<std::size_t>(*shown));
}
