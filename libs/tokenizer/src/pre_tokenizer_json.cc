// SPDX-License-Identifier: Apache-2.0
#include "pre_tokenizer_json.h"

#include <array>
#include <utility>

namespace phalanx::tokenizer {
namespace {

using Behavior = PreTokenizer::Behavior;

constexpr std::size_t kMaxStages = 16;

Result<Behavior> read_behavior(const Json& split) {
  constexpr std::array<std::pair<std::string_view, Behavior>, 5> kNames{
      {{"Isolated", Behavior::kIsolated},
       {"Removed", Behavior::kRemoved},
       {"MergedWithPrevious", Behavior::kMergedWithPrevious},
       {"MergedWithNext", Behavior::kMergedWithNext},
       {"Contiguous", Behavior::kContiguous}}};
  PHALANX_TRY(const std::string name, string_field(split, "behavior", ""));
  for (const auto& [known, behavior] : kNames) {
    if (name == known) {
      return behavior;
    }
  }
  return unimplemented("behavior \"" + name + "\" is not supported");
}

Result<Regex> read_pattern(const Json& split) {
  const Json* const pattern = split.find("pattern");
  const Json::Object* const object = pattern == nullptr ? nullptr : pattern->as_object();
  const std::string_view kind =
      object == nullptr || object->size() != 1 ? "" : std::string_view(object->front().key);
  if (kind == "Regex") {
    PHALANX_TRY(const std::string text, string_field(*pattern, kind, ""));
    return Regex::compile(text);
  }
  if (kind == "String") {
    PHALANX_TRY(const std::string text, string_field(*pattern, kind, ""));
    return Regex::literal(text);
  }
  return expected("a pattern of {\"Regex\": …} or {\"String\": …}",
                  pattern == nullptr ? split : *pattern);
}

Status add_split(const Json& split, PreTokenizer& out) {
  PHALANX_RETURN_IF_ERROR(refuse_unknown_fields(split, {"type", "pattern", "behavior", "invert"}));
  PHALANX_TRY(const Behavior behavior, read_behavior(split));
  PHALANX_TRY(const bool inverted, bool_field(split, "invert", false));
  PHALANX_TRY(Regex pattern, read_pattern(split));
  out.add_stage(std::move(pattern), behavior, inverted);
  return ok();
}

Status add_digits(const Json& digits, PreTokenizer& out) {
  PHALANX_RETURN_IF_ERROR(refuse_unknown_fields(digits, {"type", "individual_digits"}));
  PHALANX_TRY(const bool individual, bool_field(digits, "individual_digits", false));
  PHALANX_TRY(Regex pattern, Regex::compile("\\p{N}"));
  out.add_stage(
      std::move(pattern), individual ? Behavior::kIsolated : Behavior::kContiguous, false);
  return ok();
}

Status add_byte_level(const Json& byte_level, PreTokenizer& out) {
  PHALANX_RETURN_IF_ERROR(
      refuse_unknown_fields(byte_level, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  PHALANX_TRY(const bool prefix_space, bool_field(byte_level, "add_prefix_space", true));
  if (prefix_space) {
    out.add_prefix_space();
  }
  PHALANX_TRY(const bool use_regex, bool_field(byte_level, "use_regex", true));
  if (use_regex) {
    PHALANX_TRY(Regex pattern, Regex::compile(kGpt2Pattern));
    out.add_stage(std::move(pattern), Behavior::kIsolated, false);
  }
  return ok();
}

Status add_sequence(const Json& sequence, PreTokenizer& out) {
  PHALANX_RETURN_IF_ERROR(refuse_unknown_fields(sequence, {"type", "pretokenizers"}));
  const Json::Array* const stages = array_field(sequence, "pretokenizers", kMaxStages);
  if (stages == nullptr || stages->empty()) {
    return expected("an array of 1 to " + std::to_string(kMaxStages) + " pretokenizers", sequence);
  }
  for (std::size_t i = 0; i < stages->size(); ++i) {
    const Json& stage = (*stages)[i];
    const bool is_last = i + 1 == stages->size();
    PHALANX_TRY(const std::string type, component_type(stage));
    if ((type == "ByteLevel") != is_last) {
      return unimplemented(
          "a Sequence is supported only with ByteLevel at its end and nowhere "
          "else; found \"" +
          type + "\" as number " + std::to_string(i + 1) + " of " + std::to_string(stages->size()));
    }
    Status status = unimplemented("\"" + type + "\" is not supported");
    if (type == "Split") {
      status = add_split(stage, out);
    } else if (type == "Digits") {
      status = add_digits(stage, out);
    } else if (type == "ByteLevel") {
      status = add_byte_level(stage, out);
    }
    if (!status) {
      return std::move(status).error().with(type);
    }
  }
  return ok();
}

Result<Metaspace::Prepend> read_prepend(const Json& metaspace) {
  PHALANX_TRY(const std::string scheme, string_field(metaspace, "prepend_scheme", ""));
  PHALANX_TRY(const bool prefix_space, bool_field(metaspace, "add_prefix_space", true));
  if (scheme == "always" || (scheme.empty() && prefix_space)) {
    return Metaspace::Prepend::kAlways;
  }
  if (scheme == "never" || scheme.empty()) {
    return Metaspace::Prepend::kNever;
  }
  if (scheme == "first") {
    return Metaspace::Prepend::kFirst;
  }
  return unimplemented("prepend_scheme \"" + scheme + "\" is not supported");
}

Status add_metaspace(const Json& component, PreTokenizerFile& file) {
  PHALANX_RETURN_IF_ERROR(refuse_unknown_fields(
      component,
      {"type", "replacement", "str_rep", "prepend_scheme", "add_prefix_space", "split"}));
  PHALANX_TRY(const std::string mark, string_field(component, "replacement", kSpaceMark));
  if (mark != kSpaceMark) {
    return unimplemented("replacement \"" + mark + "\" is not supported");
  }
  PHALANX_TRY(const bool split, bool_field(component, "split", true));
  if (split) {
    PHALANX_TRY(Regex space, Regex::literal(" "));
    file.pre_tokenizer.add_stage(std::move(space), Behavior::kMergedWithNext, false);
  }
  file.metaspace.emplace();
  PHALANX_TRY(file.metaspace->prepend, read_prepend(component));
  return ok();
}

}  // namespace

Result<PreTokenizerFile> read_pre_tokenizer(const Json& component) {
  PreTokenizerFile file;
  if (component.is_null()) {
    return file;
  }
  PHALANX_TRY(const std::string type, component_type(component));
  if (type == "Sequence") {
    PHALANX_RETURN_IF_ERROR(add_sequence(component, file.pre_tokenizer));
    file.byte_level = true;
  } else if (type == "ByteLevel") {
    PHALANX_RETURN_IF_ERROR(add_byte_level(component, file.pre_tokenizer));
    file.byte_level = true;
  } else if (type == "Metaspace") {
    if (Status status = add_metaspace(component, file); !status) {
      return std::move(status).error().with(type);
    }
  } else {
    return unimplemented("\"" + type +
                         "\" is not supported; supported: ByteLevel, Metaspace, or a " +
                         "Sequence of Split, Digits and ByteLevel");
  }
  return file;
}

}  // namespace phalanx::tokenizer
