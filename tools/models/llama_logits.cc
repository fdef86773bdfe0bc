// SPDX-License-Identifier: Apache-2.0
//
// Logits of a GGUF file by llama.cpp, for tools/llama_logits.
// Reads prompts from standard input, one a line, as token ids separated by spaces; writes the
// logits after every token as float32 [positions, vocab], prompt after prompt.

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"

namespace {

void log_errors_only(ggml_log_level level, const char* text, void* /*unused*/) {
  if (level == GGML_LOG_LEVEL_ERROR)
    std::fputs(text, stderr);
}

std::vector<llama_token> parse(const std::string& line) {
  std::istringstream in(line);
  std::vector<llama_token> ids;
  for (llama_token id = 0; in >> id;)
    ids.push_back(id);
  return ids;
}

bool decode(llama_context* context, llama_batch& batch, const std::vector<llama_token>& ids) {
  llama_memory_clear(llama_get_memory(context), true);
  batch.n_tokens = static_cast<std::int32_t>(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    batch.token[i] = ids[i];
    batch.pos[i] = static_cast<llama_pos>(i);
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  return llama_decode(context, batch) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: llama_logits MODEL.gguf LIBRARY_DIR OUT\n", stderr);
    return 2;
  }
  constexpr int kMaxTokens = 1024;
  llama_log_set(log_errors_only, nullptr);
  ggml_backend_load_all_from_path(argv[2]);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr)
    return 1;
  llama_context_params params = llama_context_default_params();
  // Its threads wait by spinning: where other programs run, several take longer than one.
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.n_ctx = kMaxTokens;
  params.n_batch = kMaxTokens;
  params.n_ubatch = kMaxTokens;
  params.type_k = GGML_TYPE_F32;
  params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context = llama_init_from_model(model, params);
  std::FILE* out = std::fopen(argv[3], "wb");
  if (context == nullptr || out == nullptr)
    return 1;
  const auto vocab = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  llama_batch batch = llama_batch_init(kMaxTokens, 0, 1);
  for (std::string line; std::getline(std::cin, line);) {
    const std::vector<llama_token> ids = parse(line);
    if (ids.empty() || ids.size() > kMaxTokens || !decode(context, batch, ids))
      return 1;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const float* row = llama_get_logits_ith(context, static_cast<std::int32_t>(i));
      if (row == nullptr || std::fwrite(row, sizeof(float), vocab, out) != vocab)
        return 1;
    }
  }
  return std::fclose(out) == 0 ? 0 : 1;
}
