// SPDX-License-Identifier: Apache-2.0
#include "phalanx/admin/commands.h"

#include <nlohmann/json.hpp>

namespace phalanx::admin {

namespace {

using nlohmann::json;

Status read_reload(const json& document, AdminCommand* command) {
  const auto fronts = document.find("fronts");
  const auto program = document.find("program");
  if ((fronts != document.end() && !fronts->is_boolean()) ||
      (program != document.end() && !program->is_string())) {
    return invalid_argument("reload: expected true or false as fronts, and a text as program");
  }
  command->fronts = fronts != document.end() && fronts->get<bool>();
  command->program = program != document.end() ? program->get<std::string>() : "";
  if (!command->program.empty() && (!command->fronts || !command->program.starts_with('/'))) {
    return invalid_argument("reload: expected an absolute path as program, of fronts only");
  }
  return ok();
}

}  // namespace

bool takes_replica(const std::string& name) {
  return name == "drain" || name == "resume" || name == "restart";
}

Result<AdminCommand> parse_admin_command(const std::string& line) {
  const json document = json::parse(line, nullptr, false);
  if (!document.is_object() || !document.contains("command") || !document["command"].is_string()) {
    return invalid_argument("expected an object with \"command\"");
  }
  AdminCommand command;
  command.name = document["command"].get<std::string>();
  if (takes_replica(command.name)) {
    if (!document.contains("replica") || !document["replica"].is_number_unsigned() ||
        document["replica"].get<std::uint64_t>() > 0xFFFF) {
      return invalid_argument(command.name + ": expected the number of a replica");
    }
    command.replica = document["replica"].get<std::uint32_t>();
  } else if (command.name == "reload") {
    PHALANX_RETURN_IF_ERROR(read_reload(document, &command));
  } else if (command.name != "status" && command.name != "ping") {
    return invalid_argument("unknown command \"" + command.name +
                            "\"; expected status, ping, drain, resume, restart or reload");
  }
  return command;
}

std::string admin_line(const AdminCommand& command) {
  json document = {{"command", command.name}};
  if (takes_replica(command.name)) {
    document["replica"] = command.replica;
  }
  if (command.name == "reload") {
    document["fronts"] = command.fronts;
    document["program"] = command.program;
  }
  return document.dump();
}

std::string admin_ok() {
  return R"({"ok":true})";
}

std::string admin_error(const Error& error) {
  const json document = {
      {"ok", false}, {"error", error.message()}, {"code", error_traits(error.code()).name}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status command_outcome(const std::string& answer) {
  const json document = json::parse(answer, nullptr, false);
  if (document.is_object() && document.value("ok", false)) {
    return ok();
  }
  const bool explained =
      document.is_object() && document.contains("error") && document["error"].is_string();
  return failed_precondition(explained ? document["error"].get<std::string>()
                                       : "the server gave no clear answer: " + answer);
}

}  // namespace phalanx::admin
