// SPDX-License-Identifier: Apache-2.0
#include "bench_main.h"

#include <unistd.h>

#include <cstdio>
#include <exception>

#include "phalanx/base/error.h"
#include "phalanx/base/version.h"

namespace phalanx::bench {
namespace {

constexpr int kUnexpected = 70;

int complain(const std::string& name, const Error& error) {
  std::fprintf(stderr, "%s: %s\n", name.c_str(), error.message().c_str());
  return error_traits(error.code()).exit_status;
}

int run(const std::string& name,
        flags::FlagTable& flags,
        int argc,
        char** argv,
        const std::function<Status()>& body) {
  const auto request = flags.parse(flags::arguments_of(argc, argv), flags::environment_of(environ));
  if (!request) {
    return complain(name, request.error());
  }
  if (*request == flags::FlagTable::Request::kVersion) {
    std::printf("%s %s\n", name.c_str(), std::string(kVersion).c_str());
    return 0;
  }
  if (*request == flags::FlagTable::Request::kHelp) {
    std::fputs(flags.help_text().c_str(), stdout);
    return 0;
  }
  const Status status = body();
  return status ? 0 : complain(name, status.error());
}

}  // namespace

int bench_main(const std::string& name,
               flags::FlagTable& flags,
               int argc,
               char** argv,
               const std::function<Status()>& body) {
  try {
    return run(name, flags, argc, argv, body);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: unexpected: %s\n", name.c_str(), error.what());
    return kUnexpected;
  }
}

}  // namespace phalanx::bench
