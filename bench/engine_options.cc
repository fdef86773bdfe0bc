// SPDX-License-Identifier: Apache-2.0
#include "engine_options.h"

#include "phalanx/kernels/isa.h"

namespace phalanx::bench {

flags::FlagTable flags_of(Options* options) {
  flags::FlagTable flags("engine_bench",
                         "Prefill and decode of the engine in one process, and their limits.",
                         "ENGINE_BENCH_");
  flags.add_text("model",
                 &options->model,
                 "PATH",
                 "Hugging Face folder or GGUF file; random weights if empty");
  flags.add_text("format", &options->formats, "LIST", "Weight formats, as --quantization");
  flags.add_text("tp", &options->tp, "LIST", "Ranks, as threads of this process");
  flags.add_text("pp", &options->prompts, "LIST", "Prompt lengths to prefill; \"\" for none");
  flags.add_text("tg", &options->batches, "LIST", "Batches to decode; \"\" for none");
  flags.add_text("context", &options->contexts, "LIST", "Tokens before those that are decoded");
  flags.add_choice("kv-cache-dtype",
                   &options->kv_cache_dtype,
                   step::kv_format_choices(),
                   "Format of the KV cache");
  flags.add_choice("isa", &options->isa, kernels::isa_choices(), "Instruction set");
  flags.add_int("threads",
                &options->threads,
                0,
                4096,
                "Threads of all ranks together; 0 is one for each core");
  flags.add_int("rounds", &options->rounds, 1, 1000, "How often everything is measured, in turns");
  flags.add_int("steps", &options->steps, 1, 10000, "Decode steps of one measurement");
  flags.add_amount(
      "chunk", &options->chunk, 1, 65536, flags::Unit::kTokens, "Prompt tokens of one step");
  flags.add_int("layers",
                &options->layers,
                0,
                1000,
                "Layers of the random weights in the shape of Qwen3-0.6B, which has 28; 0 is all");
  flags.add_switch("only-limits", &options->only_limits, "Measure the machine, not the engine");
  return flags;
}

}  // namespace phalanx::bench
