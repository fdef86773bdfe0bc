// SPDX-License-Identifier: Apache-2.0
// What formats of weights and of the KV cache do to the answers of a model: the distributions that
// the engine computes at every position of a text, against its own in bf16. accuracy --help. A line
// of JSON for each variant; a table on stderr.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/checkpoint/model_folder.h"
#include "phalanx/checkpoint/model_path.h"
#include "phalanx/flags/flag_table.h"
#include "phalanx/kernels/isa.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/os/read_file.h"
#include "phalanx/step/choices.h"

#include "bench_main.h"
#include "divergence.h"
#include "engine_cells.h"
#include "engine_weights.h"
#include "forced_model.h"
#include "machine.h"

namespace phalanx::bench {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;
constexpr std::size_t kTextsAtOnce = 16;
constexpr char kReference[] = "bf16";

struct Options {
  std::string model;
  std::string text;
  std::string quantizations = "int8,int8-g32,int4";
  std::string kv_cache_dtypes = kReference;
  std::string isa = "auto";
  std::int64_t positions = 2048;
  std::int64_t context = 256;
};

flags::FlagTable flags_of(Options* options) {
  flags::FlagTable flags(
      "accuracy", "How far variants of a model are from its own bf16 on a text.", "ACCURACY_");
  flags.add_text("model", &options->model, "PATH", "Hugging Face folder or GGUF file");
  flags.add_text("text", &options->text, "FILE", "A text in UTF-8 to read");
  flags.add_int("positions", &options->positions, 1, 1 << 24, "Tokens of it that are compared");
  flags.add_int("context",
                &options->context,
                1,
                1 << 20,
                "The text is cut into pieces of so many tokens that do not know of each other");
  flags.add_text("quantization",
                 &options->quantizations,
                 "LIST",
                 "Weight formats, as --quantization of a server");
  flags.add_text("kv-cache-dtype",
                 &options->kv_cache_dtypes,
                 "LIST",
                 "Formats of the KV cache; each goes with every weight format");
  flags.add_choice("isa", &options->isa, kernels::isa_choices(), "Instruction set");
  return flags;
}

// The names in `text`, all of them among `choices`.
Result<std::vector<std::string>> names_of(const std::string& option,
                                          const std::string& text,
                                          const std::vector<std::string>& choices) {
  std::vector<std::string> names = split(text);
  for (const std::string& name : names) {
    if (std::find(choices.begin(), choices.end(), name) == choices.end()) {
      return invalid_argument(option + ": expected names that this option of a server takes, " +
                              "found \"" + name + "\"");
    }
  }
  if (names.empty()) {
    return invalid_argument(option + ": expected a name, found none");
  }
  return names;
}

struct Variant {
  std::string quantization;
  step::KvFormat kv_format = step::KvFormat::kBf16;
  std::unique_ptr<ForcedModel> model;
  Divergence divergence;
};

class Comparison {
 public:
  Status prepare(const Options& options);
  Status run();
  void print() const;

 private:
  Status read_text(checkpoint::ModelFolder& files,
                   std::uint32_t max_position,
                   const Options& options);
  Status add(const checkpoint::Checkpoint& checkpoint,
             const std::string& quantization,
             const std::string& kv_cache_dtype);
  Status compare(std::span<const std::span<const TokenId>> texts, std::uint32_t position);

  std::string machine_;
  kernels::Isa isa_ = kernels::Isa::kRef;
  std::uint32_t vocab_ = 0;
  std::int64_t context_ = 0;
  std::vector<TokenId> begin_;               // before each piece: what the model's texts begin with
  std::vector<std::vector<TokenId>> texts_;  // the pieces
  std::unique_ptr<kernels::ThreadTeam> team_;
  std::map<std::string, Arena> arenas_;  // by quantization
  std::vector<Variant> variants_;        // the first is what the others are compared with
};

Status Comparison::read_text(checkpoint::ModelFolder& files,
                             std::uint32_t max_position,
                             const Options& options) {
  PHALANX_TRY(const auto tokenizer, checkpoint::load_tokenizer(files, vocab_));
  PHALANX_TRY(const std::string text, os::read_file(options.text, kMaxTextBytes));
  PHALANX_TRY(const std::vector<TokenId> tokens, tokenizer->encode(text));
  PHALANX_TRY(const std::vector<TokenId> around, tokenizer->encode("", {false, true}));
  if (!around.empty() && tokenizer->bos_id() == around.front()) {
    begin_ = {around.front()};
  }
  const auto positions = static_cast<std::size_t>(options.positions);
  const auto context = static_cast<std::size_t>(options.context);
  // A step wants room for the token that it draws.
  const std::size_t most = max_position - std::min<std::size_t>(begin_.size() + 1, max_position);
  if (context > most) {
    return invalid_argument("--context: expected at most " + std::to_string(most) +
                            ", which the model has room for, found " + std::to_string(context));
  }
  if (tokens.size() < positions) {
    return invalid_argument("--text: expected at least " + std::to_string(positions) +
                            " tokens, as --positions says, found " + std::to_string(tokens.size()));
  }
  for (std::size_t at = 0; at < positions; at += context) {
    std::vector<TokenId> piece = begin_;
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    piece.insert(
        piece.end(), first, first + static_cast<std::ptrdiff_t>(std::min(context, positions - at)));
    texts_.push_back(std::move(piece));
  }
  return ok();
}

Status Comparison::add(const checkpoint::Checkpoint& checkpoint,
                       const std::string& quantization,
                       const std::string& kv_cache_dtype) {
  if (!arenas_.contains(quantization)) {
    std::fprintf(stderr, "packing %s\n", quantization.c_str());
    PHALANX_TRY(arenas_[quantization], make_arena(checkpoint, quantization, 1));
  }
  Variant variant;
  variant.quantization = quantization;
  variant.kv_format = step::kv_format_of(kv_cache_dtype);
  const step::RankLimits limits =
      limits_of_texts(static_cast<std::uint32_t>(std::min(texts_.size(), kTextsAtOnce)),
                      static_cast<std::uint32_t>(texts_.front().size()),
                      variant.kv_format);
  PHALANX_TRY(variant.model, ForcedModel::create(arenas_[quantization], limits, isa_, *team_));
  variants_.push_back(std::move(variant));
  return ok();
}

Status Comparison::prepare(const Options& options) {
  if (options.model.empty() || options.text.empty()) {
    return invalid_argument("expected --model PATH and --text FILE");
  }
  PHALANX_TRY(const auto quantizations,
              names_of("--quantization", options.quantizations, step::quantization_choices()));
  PHALANX_TRY(const auto kv_cache_dtypes,
              names_of("--kv-cache-dtype", options.kv_cache_dtypes, step::kv_format_choices()));
  machine_ = machine_json();
  context_ = options.context;
  PHALANX_TRY(isa_, kernels::resolve_isa(options.isa));
  PHALANX_RETURN_IF_ERROR(checkpoint::check_model_path(options.model));
  checkpoint::ModelFolder files(options.model);
  PHALANX_TRY(const checkpoint::Checkpoint checkpoint, checkpoint::Checkpoint::open(files));
  vocab_ = checkpoint.config().vocab;
  PHALANX_RETURN_IF_ERROR(read_text(files, checkpoint.config().max_position, options));
  PHALANX_TRY(
      team_,
      kernels::ThreadTeam::create_unpinned(static_cast<std::uint32_t>(os::allowed_cpus().size())));
  PHALANX_RETURN_IF_ERROR(add(checkpoint, kReference, kReference));
  for (const std::string& quantization : quantizations) {
    for (const std::string& kv_cache_dtype : kv_cache_dtypes) {
      PHALANX_RETURN_IF_ERROR(add(checkpoint, quantization, kv_cache_dtype));
    }
  }
  return ok();
}

Status Comparison::compare(std::span<const std::span<const TokenId>> texts,
                           std::uint32_t position) {
  PHALANX_TRY(const std::span<const float> reference,
              variants_.front().model->step(texts, position));
  for (Variant& variant : std::span(variants_).subspan(1)) {
    PHALANX_TRY(const std::span<const float> other, variant.model->step(texts, position));
    if (position < begin_.size()) {
      continue;
    }
    for (std::size_t row = 0; row < reference.size(); row += vocab_) {
      variant.divergence.add(reference.subspan(row, vocab_), other.subspan(row, vocab_));
    }
  }
  return ok();
}

// All models read the same positions one after the other, so that only their logits are held.
Status Comparison::run() {
  for (std::size_t at = 0; at < texts_.size(); at += kTextsAtOnce) {
    const auto pieces = std::span(texts_).subspan(at, std::min(kTextsAtOnce, texts_.size() - at));
    const std::vector<std::span<const TokenId>> texts(pieces.begin(), pieces.end());
    for (std::uint32_t position = 0; position < texts.front().size(); ++position) {
      PHALANX_RETURN_IF_ERROR(compare(texts, position));
    }
    std::fprintf(stderr, "%zu of %zu pieces\n", at + pieces.size(), texts_.size());
  }
  return ok();
}

void Comparison::print() const {
  std::fprintf(stderr,
               "\n%-14s %-5s %20s %10s %8s %10s\n",
               "quantization",
               "kv",
               "mean KL (error)",
               "max KL",
               "top-1",
               "positions");
  for (const Variant& variant : std::span(variants_).subspan(1)) {
    const Divergence& found = variant.divergence;
    const std::string kv(step::kv_format_name(variant.kv_format));
    std::printf(
        "{\"bench\":\"accuracy\",\"quantization\":\"%s\",\"format\":\"%s\",\"kv\":\"%s\","
        "\"mean_kl\":%.6g,\"kl_error\":%.2g,\"max_kl\":%.6g,\"top_1\":%.6g,\"positions\":%llu,"
        "\"context\":%lld,%s}\n",
        variant.quantization.c_str(),
        describe(arenas_.at(variant.quantization).config.formats).c_str(),
        kv.c_str(),
        found.mean_kl(),
        found.kl_error(),
        found.max_kl(),
        found.top_share(),
        static_cast<unsigned long long>(found.positions()),
        static_cast<long long>(context_),
        machine_.c_str());
    std::fprintf(stderr,
                 "%-14s %-5s %11.5f (%.5f) %10.4f %6.2f %% %10llu\n",
                 variant.quantization.c_str(),
                 kv.c_str(),
                 found.mean_kl(),
                 found.kl_error(),
                 found.max_kl(),
                 100 * found.top_share(),
                 static_cast<unsigned long long>(found.positions()));
  }
}

Status measure(const Options& options) {
  Comparison comparison;
  PHALANX_RETURN_IF_ERROR(comparison.prepare(options));
  PHALANX_RETURN_IF_ERROR(comparison.run());
  comparison.print();
  return ok();
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  phalanx::bench::Options options;
  phalanx::flags::FlagTable flags = phalanx::bench::flags_of(&options);
  return phalanx::bench::bench_main(
      "accuracy", flags, argc, argv, [&] { return phalanx::bench::measure(options); });
}
