// SPDX-License-Identifier: Apache-2.0
#include "result_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>

#include "phalanx/os/unique_fd.h"

namespace phalanx::load {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // as the kernel follows

// What a link points to is made, replaced and removed, not the link.
fs::path behind_links(fs::path path) {
  std::error_code error;
  for (int links = 0; links < kMaxLinks && fs::is_symlink(path, error); ++links) {
    path = path.parent_path() / fs::read_symlink(path, error);
  }
  return path;
}

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &parts);
  return {text.data(), length};
}

Status finish(std::ofstream file, const fs::path& path, const std::string& content) {
  if (file) {
    errno = 0;
    file << content;
    file.close();
  }
  return file ? ok()
              : resource_exhausted(
                    errno_error("writing the result to " + path.string(), errno).message());
}

// A file is written under another name and then renamed. Whether that was possible, or what went
// wrong with the content.
Result<bool> replace(const fs::path& path, const std::string& content) {
  std::error_code error;
  const fs::file_status before = fs::status(path, error);
  if (fs::exists(before) && !fs::is_regular_file(before)) {
    return false;
  }
  fs::path unfinished = path;
  unfinished += "." + std::to_string(::getpid()) + ".part";
  std::ofstream file(unfinished);
  if (!file) {
    return false;
  }
  if (fs::exists(before)) {
    fs::permissions(unfinished, before.permissions(), error);
  }
  const Status written = finish(std::move(file), path, content);
  error.clear();
  if (written) {
    fs::rename(unfinished, path, error);
  }
  if (!written || error) {
    std::error_code ignored;
    fs::remove(unfinished, ignored);
  }
  PHALANX_RETURN_IF_ERROR(written);
  return !error;
}

Status write(const fs::path& path, const std::string& content) {
  PHALANX_TRY(const bool is_replaced, replace(path, content));
  return is_replaced ? ok() : finish(std::ofstream(path), path, content);
}

}  // namespace

Status check_result_place(const Options& options) {
  const fs::path folder(options.result_dir);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return errno_error("--result-dir: " + folder.string(), error.value());
  }
  const bool is_named = !options.result_filename.empty();
  const fs::path path =
      behind_links(folder / (is_named ? options.result_filename
                                      : ".phalanx-load-" + std::to_string(::getpid()) + ".json"));
  const bool existed = fs::exists(path, error);
  const os::UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!file.valid()) {
    return errno_error("--save-result: " + path.string(), errno);
  }
  if (!existed) {
    fs::remove(path, error);
  }
  return ok();
}

Result<std::string> save_report(const Options& options, const loadgen::Report& report) {
  const std::string date = local_time();
  std::error_code error;
  fs::create_directories(options.result_dir, error);
  const fs::path path =
      fs::path(options.result_dir) / (options.result_filename.empty()
                                          ? loadgen::report_file_name(report.settings, date)
                                          : options.result_filename);
  PHALANX_RETURN_IF_ERROR(write(behind_links(path), loadgen::report_json(report, date)));
  return path.string();
}

}  // namespace phalanx::load
