// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "phalanx/base/split_list.h"
#include "phalanx/base/version.h"
#include "phalanx/flags/flag_table.h"

#include "numbers.h"
#include "target.h"

namespace phalanx::load {
namespace {

constexpr std::int64_t kMaxCount = 10'000'000;
constexpr double kLongestRunSeconds = 366 * 86400.0;  // nobody waits as long

flags::Flag flag(std::string name, std::string value_name, std::string help) {
  flags::Flag result;
  result.names = {std::move(name)};
  result.value_name = std::move(value_name);
  result.help = std::move(help);
  return result;
}

Status set_number(std::optional<double>* target, double min, double max, const std::string& text) {
  PHALANX_TRY(*target, parse_number(text, min, max));
  return ok();
}

Status set_metrics(std::vector<std::string>* target, const std::string& text) {
  *target = split_list(text);
  for (const std::string& metric : *target) {
    if (metric != "ttft" && metric != "tpot" && metric != "itl" && metric != "e2el") {
      return invalid_argument("expected a list of ttft, tpot, itl, e2el; came \"" + metric + "\"");
    }
  }
  return ok();
}

Status set_percentiles(std::vector<double>* target, const std::string& text) {
  target->clear();
  for (const std::string& part : split_list(text)) {
    PHALANX_TRY(const double percentile, parse_number(part, 0, 100));
    target->push_back(percentile);
  }
  return ok();
}

// "ttft:200"
Status set_goodput_limit(loadgen::GoodputLimits* target, const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string metric = text.substr(0, colon);
  std::optional<double>* const limit = metric == "ttft"   ? &target->ttft
                                       : metric == "tpot" ? &target->tpot
                                       : metric == "e2el" ? &target->e2el
                                                          : nullptr;
  if (limit == nullptr || colon == text.size()) {
    return invalid_argument("expected ttft:MS, tpot:MS or e2el:MS, as in ttft:200, came \"" + text +
                            "\"");
  }
  return set_number(limit, 0, 1e9, text.substr(colon + 1));
}

// One limit, or several with blanks between them.
Status set_goodput(loadgen::GoodputLimits* target, const std::string& text) {
  std::istringstream words(text);
  std::string word;
  if (!(words >> word)) {
    return set_goodput_limit(target, text);
  }
  do {
    PHALANX_RETURN_IF_ERROR(set_goodput_limit(target, word));
  } while (words >> word);
  return ok();
}

// A field that is sent only if it is set.
void add_field(flags::FlagTable& table,
               const std::string& name,
               double min,
               double max,
               std::optional<double>* target) {
  flags::Flag field = flag(name, "X", "Sent with every request; without it the server decides");
  field.set = [=](const std::string& text) { return set_number(target, min, max, text); };
  table.add(std::move(field));
}

void add_server_flags(flags::FlagTable& table, Options* o) {
  table.group("Server");
  table.add_choice(
      "backend", &o->backend, {"openai", "openai-chat"}, "API to use: completions or chat");
  table.add_text("base-url", &o->base_url, "URL", "http://HOST:PORT; wins over --host and --port");
  table.add_text("host", &o->host, "HOST", "Name or address of the server");
  table.add_int("port", &o->port, 1, 65535, "Port of the server");
  table.add_text("endpoint", &o->endpoint, "PATH", "Path of the API; default: that of the backend");
  table.add_text(
      "model", &o->model, "NAME", "Model to ask for; default: the first that the server lists");
  table.add_texts("header", &o->headers, "NAME: VALUE", "Header field of every request");
}

void add_workload_flags(flags::FlagTable& table, Options* o) {
  table.group("Workload");
  table.add_choice("dataset-name",
                   &o->dataset_name,
                   {"random", "custom"},
                   "Where prompts come from: drawn at random, or --dataset-path");
  table.add_text("dataset-path",
                 &o->dataset_path,
                 "FILE",
                 "JSON lines {\"prompt\": text, \"output_tokens\": N} for --dataset-name custom");
  table.add_int("num-prompts", &o->num_prompts, 1, kMaxCount, "Requests of the run");
  table.add_int("random-input-len",
                &o->random_input_len,
                1,
                1 << 22,
                "Tokens of a random prompt (for chat: short words)");
  table.add_int("random-output-len", &o->random_output_len, 1, 1 << 22, "Tokens asked for");
  table.add_double("random-range-ratio",
                   &o->random_range_ratio,
                   0,
                   1,
                   "Random lengths are uniform in [len (1 - ratio), len (1 + ratio)]");
  table.add_int("custom-output-len",
                &o->custom_output_len,
                1,
                1 << 22,
                "Tokens asked for where a custom prompt names none");
  table.add_int(
      "num-warmups", &o->num_warmups, 0, kMaxCount, "Requests before the run, not counted");
  table.add_int("seed", &o->seed, 0, std::numeric_limits<std::int64_t>::max(), "Seed of the run");
  table.add_switch("verify-counts",
                   &o->verify_counts,
                   "Ask for \"count from A to B\" and check the answers word for word (chat; the "
                   "built-in model can)");
}

void add_load_flags(flags::FlagTable& table, Options* o) {
  table.group("Load");
  table.add_double("request-rate",
                   &o->request_rate,
                   1e-6,
                   std::numeric_limits<double>::infinity(),
                   "Requests per second (open loop); inf = all at once");
  table.add_double("burstiness",
                   &o->burstiness,
                   0.05,  // of less nearly all gaps are smaller than any number
                   1e6,
                   "Shape of the gamma-distributed gaps; 1 = Poisson, smaller = burstier");
  table.add_int("max-concurrency",
                &o->max_concurrency,
                0,
                1'000'000,
                "Requests under way at a time; with rate inf this is a closed loop; 0 = no limit");
  table.add_double(
      "request-timeout", &o->request_timeout_s, 0.001, 1e6, "Seconds until a request has failed");
  table.add_switch(
      "audit-usage",
      &o->audit_usage,
      "Usage must equal the events counted; --no-audit-usage is for servers that join tokens");
}

void add_sampling_flags(flags::FlagTable& table, Options* o) {
  table.group("Sampling");
  loadgen::RequestFields& fields = o->fields;
  table.add_switch("ignore-eos", &fields.ignore_eos, "Always produce all tokens asked for");
  add_field(table, "temperature", 0, 2, &fields.temperature);
  add_field(table, "top-p", 0, 1, &fields.top_p);
  add_field(table, "min-p", 0, 1, &fields.min_p);
  add_field(table, "repetition-penalty", 0, 100, &fields.repetition_penalty);
  add_field(table, "presence-penalty", -2, 2, &fields.presence_penalty);
  add_field(table, "frequency-penalty", -2, 2, &fields.frequency_penalty);
  flags::Flag top_k = flag("top-k", "K", "Sent with every request; without it the server decides");
  top_k.set = [&fields](const std::string& text) -> Status {
    PHALANX_TRY(fields.top_k, parse_integer(text, -1, 1'000'000'000));
    return ok();
  };
  table.add(std::move(top_k));
  table.add_text("extra-body", &fields.extra_body_json, "JSON", "Object added to every request");
}

void add_report_flags(flags::FlagTable& table, Options* o) {
  table.group("Report");
  flags::Flag metrics = flag("percentile-metrics", "LIST", "Latencies shown: ttft,tpot,itl,e2el");
  metrics.default_text = "ttft,tpot,itl,e2el";
  metrics.set = [o](const std::string& text) { return set_metrics(&o->metrics, text); };
  table.add(std::move(metrics));
  flags::Flag percentiles = flag("metric-percentiles", "LIST", "Percentiles of each latency");
  percentiles.default_text = "50,90,95,99";
  percentiles.set = [o](const std::string& text) { return set_percentiles(&o->percentiles, text); };
  table.add(std::move(percentiles));
  flags::Flag goodput = flag("goodput",
                             "METRIC:MS",
                             "Count requests within these limits as good, as in ttft:200 tpot:50 "
                             "e2el:2000");
  goodput.repeatable = goodput.takes_words = true;
  goodput.set = [o](const std::string& text) { return set_goodput(&o->goodput, text); };
  table.add(std::move(goodput));
  table.add_switch("save-result", &o->save_result, "Write the result as JSON");
  table.add_text("result-dir", &o->result_dir, "DIR", "Folder of the result");
  table.add_text("result-filename", &o->result_filename, "NAME", "Default: from label and date");
  table.add_text("label", &o->label, "TEXT", "Name of the run in the result");
  table.add_switch("progress", &o->show_progress, "Show a progress bar on a terminal");
}

Status derive(Options* o) {
  o->api = o->backend == "openai-chat" ? loadgen::Backend::kChat : loadgen::Backend::kCompletions;
  const bool is_chat = o->api == loadgen::Backend::kChat;
  if (o->endpoint.empty()) {
    o->endpoint = is_chat ? "/v1/chat/completions" : "/v1/completions";
  }
  PHALANX_RETURN_IF_ERROR(apply_address(o));
  if (o->dataset_name == "custom" && o->dataset_path.empty() && !o->verify_counts) {
    return invalid_argument("--dataset-name custom needs --dataset-path FILE");
  }
  if (o->dataset_name != "custom" && !o->dataset_path.empty()) {
    return invalid_argument("--dataset-path needs --dataset-name custom");
  }
  if (o->verify_counts && !o->dataset_path.empty()) {
    return invalid_argument("--dataset-path has no effect with --verify-counts, which asks itself");
  }
  if (!o->save_result && (o->result_dir != Options().result_dir || !o->result_filename.empty())) {
    return invalid_argument("--result-dir and --result-filename need --save-result");
  }
  if (static_cast<double>(o->num_prompts) > o->request_rate * kLongestRunSeconds) {
    return invalid_argument("--request-rate: at this rate the last of --num-prompts (" +
                            std::to_string(o->num_prompts) +
                            ") requests would be sent after more than a year");
  }
  if (o->verify_counts && !is_chat) {
    return invalid_argument("--verify-counts needs --backend openai-chat");
  }
  if (o->verify_counts && !o->fields.temperature) {
    o->fields.temperature = 0.0;
  }
  return add_headers(o);
}

}  // namespace

Result<ParsedOptions> parse_options(const std::vector<std::string>& arguments,
                                    const std::map<std::string, std::string>& environment) {
  ParsedOptions parsed;
  Options* o = &parsed.options;
  flags::FlagTable table("phalanx-load",
                         "phalanx-load sends load to a server with an OpenAI API, audits every "
                         "stream and reports latencies.\n\nexit status: 0 all requests succeeded, "
                         "1 some failed, 64 wrong usage, 66 a file is missing, 69 no server, "
                         "75 what is said or saved cannot be written, 128 + n ended by signal n",
                         "PHALANX_LOAD_");
  add_server_flags(table, o);
  add_workload_flags(table, o);
  add_load_flags(table, o);
  add_sampling_flags(table, o);
  add_report_flags(table, o);
  table.allow_environment("PHALANX_LOAD_BALANCE_METHOD");  // phalanxd's --load-balance-method
  table.allow_environment("PHALANX_LOAD_FORMAT");          // and its --load-format
  PHALANX_TRY(const auto request, table.parse(arguments, environment));
  parsed.notes = table.notes();
  if (request == flags::FlagTable::Request::kHelp) {
    parsed.print_and_exit = table.help_text();
  } else if (request == flags::FlagTable::Request::kVersion) {
    parsed.print_and_exit = "phalanx-load " + std::string(kVersion) + "\n";
  } else {
    PHALANX_RETURN_IF_ERROR(derive(o));
  }
  return parsed;
}

}  // namespace phalanx::load
