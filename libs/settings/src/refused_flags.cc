// SPDX-License-Identifier: Apache-2.0
#include "refused_flags.h"

namespace phalanx::settings {
namespace {

struct RefusedFlags {
  const char* names;
  const char* reason;
  const char* harmless_value = "";
};
constexpr RefusedFlags kRefusedFlags[] = {
    {"pipeline-parallel-size,pp", "Phalanx does not shard by pipeline stage", "1"},
    {"expert-parallel-size", "mixture-of-experts models are not supported", "1"},
    {"dtype",
     "weights are what --quantization says, and the KV cache what --kv-cache-dtype says",
     "bfloat16"},
    {"speculative-config", "there is no speculative decoding in this version"},
    {"enable-lora,lora-modules,max-lora-rank", "there are no adapters in this version"},
    {"api-key", "there are no keys in this version; put a proxy in front"},
    {"ssl-keyfile,ssl-certfile,ssl-ca-certs,ssl-ciphers,ssl-cert-reqs,enable-ssl-refresh",
     "there is no TLS in this version; put a proxy in front"},
    {"root-path", "paths begin at /; let the proxy in front take its prefix off"},
    {"uds", "there are no UNIX sockets for clients in this version; use --host and --port"},
    {"nnodes,node-rank,master-addr,master-port,headless,data-parallel-address,data-parallel-size-"
     "local",
     "all processes run on one host in this version"},
    {"distributed-executor-backend", "ranks are always processes of phalanx-worker"},
    {"api-server-count", "processes that talk to clients are counted by --fronts"},
    {"gpu-memory-utilization", "there is no GPU back end; see --kv-cache-memory-bytes"},
    {"cpu-offload-gb,swap-space", "there is no GPU back end; all memory is the machine's", "0"},
    {"device", "there is no GPU back end in this version", "cpu"},
    {"compilation-config", "kernels are compiled with the program; see --isa"},
    {"block-size", "a block of the KV cache holds 32 tokens", "32"},
    {"scheduling-policy", "requests are served first come, first served", "fcfs"},
    {"tokenizer", "the tokenizer is read from the model's folder or GGUF file"},
    {"tokenizer-mode", "there is one tokenizer", "auto"},
    {"revision,code-revision,tokenizer-revision,download-dir,hf-token",
     "models are folders and files on this machine, and nothing is downloaded"},
    {"hf-overrides,hf-config-path,rope-scaling,rope-theta,disable-sliding-window",
     "the configuration is read from the model's folder"},
    {"load-format,config-format", "what a file holds is read from itself", "auto"},
    {"model-impl", "models are computed by Phalanx itself", "auto"},
    {"enable-sleep-mode", "a server that is not used can be stopped"},
    {"prefix-caching-hash-algo", "blocks that are shared are compared token by token"},
    {"scheduler-cls,tool-server", "no code is loaded into the server"},
    {"num-scheduler-steps",
     "steps that only decode are sent ahead of the results of the last",
     "1"},
    {"max-num-partial-prefills,long-prefill-token-threshold",
     "a block of each step goes to the shortest prompt, the rest of --max-num-batched-tokens and "
     "--max-step-ms to all in order of arrival"},
    {"max-seq-len-to-capture,disable-custom-all-reduce",
     "there is no GPU back end in this version"},
    {"stream-interval", "every token is sent when it is there", "1"},
    {"logprobs-mode",
     "log probabilities are those of the model, before penalties and temperature",
     "raw_logprobs"},
    {"return-tokens-as-token-ids", "tokens are shown as text in this version"},
    {"default-chat-template-kwargs", "clients give chat_template_kwargs in their requests"},
    {"enable-force-include-usage", "clients ask for usage by stream_options"},
    {"exclude-tools-when-tool-choice-none", "the template decides what becomes of tools"},
    {"enable-tokenizer-info-endpoint,enable-server-load-tracking,enable-per-request-metrics",
     "see GET /metrics and `phalanxctl status`"},
    {"task", "models generate text", "generate"},
    {"generation-config", "defaults of sampling are read from the model's folder", "auto"},
    {"override-generation-config", "clients set sampling in their requests"},
    {"max-logprobs", "clients may ask for up to 20", "20"},
    {"chat-template-content-format", "messages are given to the template as it reads them", "auto"},
    {"response-role", "answers are the assistant's", "assistant"},
    {"enable-auto-tool-choice,tool-call-parser,tool-parser-plugin",
     "tool calls are not parsed in this version"},
    {"reasoning-parser,reasoning-parser-plugin",
     "reasoning is not told apart from the answer in this version"},
    {"limit-mm-per-prompt,mm-processor-kwargs,mm-encoder-tp-mode", "models take text"},
    {"middleware,logits-processors", "no code is loaded into the server"},
    {"structured-outputs-config,guided-decoding-backend", "answers are free text in this version"},
    {"kv-transfer-config", "KV is not transferred"},
    {"disable-log-stats,enable-log-requests,disable-log-requests,disable-uvicorn-access-log,"
     "uvicorn-log-level,max-log-len,log-config-file,enable-log-outputs,log-error-stack",
     "what is logged is set by --log-level"},
    {"otlp-traces-endpoint", "there are no traces in this version; see GET /metrics"},
    {"h11-max-header-count,h11-max-incomplete-event-size",
     "a header has at most 128 fields and 32 KiB"},
    {"allow-credentials,allowed-methods,allowed-headers",
     "what pages may ask is set by --allowed-origins"},
    // Of llama-server, SGLang and TGI.
    {"m,model-path,model-id", "the model is the first argument, or --model"},
    {"hf,hfr,hf-repo,hff,hf-file,mu,model-url",
     "models are folders and files on this machine, and nothing is downloaded"},
    {"a,alias", "the name in the API is --served-model-name"},
    {"c,ctx-size,context-length,max-total-tokens",
     "tokens of prompt and answer together are limited by --max-model-len",
     "0"},
    {"t,threads,tb,threads-batch", "the cores of each rank are set by --devices"},
    {"np,parallel,max-running-requests,max-concurrent-requests",
     "sequences that run at the same time are limited by --max-num-seqs"},
    {"b,batch-size,ub,ubatch-size,chunked-prefill-size,max-batch-prefill-tokens",
     "tokens of a step are limited by --max-num-batched-tokens"},
    {"ngl,gpu-layers,n-gpu-layers", "there is no GPU back end in this version", "0"},
    {"mem-fraction-static", "there is no GPU back end; see --kv-cache-memory-bytes"},
    {"ctk,cache-type-k,ctv,cache-type-v", "the format of keys and values is --kv-cache-dtype"},
    {"dp-size", "replicas are counted by --dp"},
    {"tp-size,num-shard", "ranks of a replica are counted by --tp"},
    {"n,predict,n-predict",
     "clients give max_tokens in their requests; see --max-tokens for --prompt"},
    {"p", "a prompt to answer without a server is --prompt"},
};

struct RefusedSwitch {
  const char* names;
  const char* reason;
  bool harmless;
};
constexpr RefusedSwitch kRefusedSwitches[] = {
    {"enable-expert-parallel,ep", "mixture-of-experts models are not supported", false},
    {"enable-chunked-prefill", "prompts are always computed in chunks", true},
    {"enforce-eager", "there are no graphs to capture", true},
    {"disable-fastapi-docs", "there are no pages of documentation", true},
    {"trust-request-chat-template", "requests bring no template in this version", false},
    {"async-scheduling", "steps that only decode are sent ahead of the results of the last", true},
    {"trust-remote-code", "no code of a model's folder is ever run", false},
    {"enable-prompt-tokens-details", "usage always has cached_tokens", true},
    {"enable-request-id-headers", "answers to requests always carry x-request-id", true},
    {"jinja", "chat templates are always rendered as Jinja", true},
    {"cont-batching,cb", "sequences come and go with every step", true},
    {"metrics", "GET /metrics is always answered", true},
};

}  // namespace

void refuse_foreign_flags(flags::FlagTable* table) {
  table->refuse_word("serve",
                     "no command is needed, `phalanxd MODEL` starts a server (a model of that name "
                     "is ./serve)");
  for (const RefusedFlags& refused : kRefusedFlags) {
    table->refuse(refused.names, refused.reason, refused.harmless_value);
  }
  for (const RefusedSwitch& refused : kRefusedSwitches) {
    table->refuse_switch(refused.names, refused.reason, refused.harmless);
  }
}

}  // namespace phalanx::settings
