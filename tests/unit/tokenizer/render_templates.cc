// SPDX-License-Identifier: Apache-2.0
// Renders templates for scripts that compare the outcome with Python's Jinja: one JSON object a
// line comes in on standard input, one goes out.
//
//   in   {"template": text, "constants": {name: text}, "messages": [...], "tools": [...],
//         "documents": [...], "variables": {...}, "add_generation_prompt": bool,
//         "continue_final_message": bool, "now": seconds}; only template and messages must be there
//   out  {"rendered": text} or {"refused": message} (when compiled) or {"error": message}
#include <chrono>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "phalanx/tokenizer/chat_template.h"

namespace {

using nlohmann::ordered_json;
using namespace phalanx::tokenizer;

std::string dump_of(const ordered_json& object, const char* name) {
  return object.contains(name) ? object[name].dump() : std::string();
}

ordered_json outcome(const ordered_json& in) {
  std::vector<std::pair<std::string, std::string>> constants;
  const ordered_json given = in.value("constants", ordered_json::object());
  for (const auto& [name, value] : given.items()) {
    constants.emplace_back(name, value.get<std::string>());
  }
  const auto compiled =
      ChatTemplate::compile(in["template"].get<std::string>(), std::move(constants));
  if (!compiled) {
    return {{"refused", compiled.error().to_string()}};
  }
  const std::string messages = in["messages"].dump();
  const std::string tools = dump_of(in, "tools");
  const std::string documents = dump_of(in, "documents");
  const std::string variables = dump_of(in, "variables");
  const auto segments =
      compiled->render({.messages_json = messages,
                        .tools_json = tools,
                        .documents_json = documents,
                        .variables_json = variables,
                        .add_generation_prompt = in.value("add_generation_prompt", false),
                        .continue_final_message = in.value("continue_final_message", false),
                        .now = std::chrono::system_clock::from_time_t(in.value("now", 0))});
  if (!segments) {
    return {{"error", segments.error().message()}};
  }
  std::string whole;
  for (const TextSegment& segment : *segments) {
    whole += segment.text;
  }
  return {{"rendered", whole}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << outcome(ordered_json::parse(line)).dump() << std::endl;
  }
}
