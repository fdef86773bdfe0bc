// SPDX-License-Identifier: Apache-2.0
#include "phalanx/documents/poison_document.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/json/writer.h"
#include "phalanx/os/mapped_file.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/frame_header.h"

namespace phalanx::documents {

namespace {

void write_ids(json::Writer& json, std::string_view name, const std::vector<TokenId>& ids) {
  json.key(name).begin_array();
  for (const TokenId id : ids) {
    json.integer(id);
  }
  json.end_array();
}

// As much of a file as a dump may have, and a byte more of one that has more.
Result<std::string> read_beginning(const std::string& path) {
  PHALANX_TRY(const os::MappedFile file, os::MappedFile::open(path));
  const std::size_t most = wire::kFrameHeaderBytes + wire::kMaxDumpBytes + 1;
  const auto bytes = file.bytes().first(std::min<std::size_t>(file.bytes().size(), most));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

Result<wire::PoisonedRequest> read_dump(const std::string& path) {
  PHALANX_TRY(const std::string file, read_beginning(path));
  const std::string_view bytes = file;
  const std::string_view frame = bytes.substr(std::min(bytes.size(), wire::kFrameHeaderBytes));
  const auto size =
      wire::frame_bytes_of(bytes.substr(0, wire::kFrameHeaderBytes), wire::kMaxDumpBytes);
  if (!size && size.error().code() == Code::kFailedPrecondition) {
    return failed_precondition(path + ": " + size.error().message());
  }
  if (!size) {
    return data_loss(path + " is no dump of a request: " + size.error().message());
  }
  if (*size != frame.size()) {
    return data_loss(path + " is no whole dump: its frame has " + std::to_string(frame.size()) +
                     " bytes of " + std::to_string(*size));
  }
  auto request = wire::decode_poisoned_request(frame);
  if (!request) {
    return data_loss(path + " is no dump of a request: " + request.error().message());
  }
  return request;
}

std::string poison_json(const wire::PoisonedRequest& request) {
  const step::SamplingParams& sampling = request.sampling;
  json::Writer json(json::Characters::kAscii);
  json.begin_object();
  json.key("error").text(request.error);
  json.key("label").text(request.label);
  json.key("request").unsigned_integer(request.request.value());
  json.key("choice").unsigned_integer(request.choice);
  json.key("max_tokens").unsigned_integer(request.stop.max_tokens);
  json.key("temperature").real(sampling.temperature);
  json.key("top_k").integer(sampling.top_k);
  json.key("top_p").real(sampling.top_p);
  json.key("min_p").real(sampling.min_p);
  json.key("repetition_penalty").real(sampling.repetition_penalty);
  json.key("presence_penalty").real(sampling.presence_penalty);
  json.key("frequency_penalty").real(sampling.frequency_penalty);
  json.key("top_logprobs").integer(sampling.top_logprobs);
  json.key("min_tokens").unsigned_integer(sampling.min_tokens);
  json.key("seed").integer(static_cast<std::int64_t>(sampling.seed));  // as requests name it
  json.key("logit_bias").begin_array();
  for (const auto& [token, bias] : sampling.logit_bias) {
    json.begin_array().integer(token).real(bias).end_array();
  }
  json.end_array();
  write_ids(json, "stop_token_ids", request.stop.stop_token_ids);
  write_ids(json, "prompt_ids", request.prompt_ids);
  write_ids(json, "produced_ids", request.produced_ids);
  json.end_object();
  return json.take();
}

}  // namespace phalanx::documents
