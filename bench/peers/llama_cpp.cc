// SPDX-License-Identifier: Apache-2.0
// Measures llama.cpp on a GGUF file, for bench/peers/llama_cpp, which compiles it with the headers
// and libraries that tools/install_llama_cpp installs. Prints what bench/compare wants of a peer.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "llama.h"

namespace {

constexpr int kBatch = 16;
constexpr int kPrompts = 3;  // as bench/compare takes in a round
constexpr int kWarmUp = 1;   // steps

struct Asked {
  int threads;
  int prompt;
  int context;
  int tokens;
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "llama_cpp: %s\n", what);
  std::exit(1);
}

void log_errors_only(ggml_log_level level, const char* text, void* /*unused*/) {
  if (level == GGML_LOG_LEVEL_ERROR)
    std::fputs(text, stderr);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Threads that stay on the first processors that this process may use: without that the kernel
// moves them, and each of its products ends with the slowest.
ggml_threadpool* pinned_threads(int count) {
  ggml_threadpool_params params;
  ggml_threadpool_params_init(&params, count);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    fail("the processors of this process are not known");
  int taken = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpu < GGML_MAX_N_THREADS && taken < count; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) {
      params.cpumask[cpu] = true;
      ++taken;
    }
  }
  params.strict_cpu = true;
  const ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  void* const make = device == nullptr
                         ? nullptr
                         : ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device),
                                                             "ggml_threadpool_new");
  if (make == nullptr || taken < count)
    fail("no threads on processors of their own");
  return reinterpret_cast<decltype(&ggml_threadpool_new)>(make)(&params);
}

class Engine {
 public:
  Engine(const char* path, const Asked& asked) : asked_(asked) {
    model_ = llama_model_load_from_file(path, llama_model_default_params());
    if (model_ == nullptr)
      fail("the model cannot be loaded");
    vocabulary_ = llama_vocab_n_tokens(llama_model_get_vocab(model_));
    const int length = std::max(asked.prompt, asked.context + asked.tokens + kWarmUp) + 1;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<std::uint32_t>(kBatch * (length + 255) / 256 * 256);
    params.n_batch = static_cast<std::uint32_t>(std::max(length, 512));
    params.n_ubatch = 512;
    params.n_seq_max = kBatch;
    params.n_threads = asked.threads;
    params.n_threads_batch = asked.threads;
    context_ = llama_init_from_model(model_, params);
    if (context_ == nullptr)
      fail("no context");
    llama_attach_threadpool(context_, pinned_threads(asked.threads), nullptr);
    batch_ = llama_batch_init(static_cast<std::int32_t>(params.n_batch), 0, 1);
  }

  // Tokens per second.
  double prefill() {
    double took = 0.0;
    for (int i = 0; i < kPrompts; ++i) {
      clear();
      const double began = now();
      read_prompt(0, asked_.prompt);
      took += now() - began;
    }
    return kPrompts * asked_.prompt / took;
  }

  // Of all sequences, each with a context of its own; without the cost of choosing tokens.
  double decode(int sequences) {
    clear();
    for (int i = 0; i < sequences; ++i)
      read_prompt(i, asked_.context);
    double began = 0.0;
    for (int step = 0; step < kWarmUp + asked_.tokens; ++step) {
      if (step == kWarmUp)
        began = now();
      batch_.n_tokens = 0;
      for (int i = 0; i < sequences; ++i)
        add(i, asked_.context + step, true);
      run();
    }
    return sequences * asked_.tokens / (now() - began);
  }

 private:
  void clear() { llama_memory_clear(llama_get_memory(context_), false); }

  void read_prompt(int sequence, int tokens) {
    batch_.n_tokens = 0;
    for (int at = 0; at < tokens; ++at)
      add(sequence, at, at + 1 == tokens);
    run();
  }

  void add(int sequence, int position, bool has_logits) {
    const int i = batch_.n_tokens++;
    batch_.token[i] = static_cast<llama_token>(random_() % static_cast<unsigned>(vocabulary_));
    batch_.pos[i] = position;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = sequence;
    batch_.logits[i] = has_logits ? 1 : 0;
  }

  void run() {
    if (llama_decode(context_, batch_) != 0)
      fail("a step failed");
    llama_synchronize(context_);
  }

  Asked asked_;
  llama_model* model_ = nullptr;
  llama_context* context_ = nullptr;
  llama_batch batch_{};
  int vocabulary_ = 0;
  std::minstd_rand random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7)
    fail("expected MODEL LIBRARIES THREADS PROMPT CONTEXT TOKENS");
  llama_log_set(log_errors_only, nullptr);
  ggml_backend_load_all_from_path(argv[2]);
  llama_backend_init();
  Engine engine(argv[1],
                {std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5]), std::atoi(argv[6])});
  engine.decode(1);  // the first steps meet new memory
  const double prefill = engine.prefill();
  const double one = engine.decode(1);
  const double all = engine.decode(kBatch);
  std::printf(
      "{\"prefill\": %.2f, \"decode_b1\": %.2f, \"decode_b16\": %.2f}\n", prefill, one, all);
  std::fflush(stdout);
  std::_Exit(0);  // what it holds ends with it
}
