// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/model_folder.h"

#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "phalanx/base/git_lfs.h"
#include "phalanx/gguf/file.h"
#include "phalanx/gguf/split.h"
#include "phalanx/os/mapped_file.h"
#include "phalanx/os/read_file.h"
#include "phalanx/step/limits.h"

namespace phalanx::checkpoint {
namespace {

namespace fs = std::filesystem;

class MappedBytes final : public FileBytes {
 public:
  explicit MappedBytes(os::MappedFile file) : file_(std::move(file)) {}

  [[nodiscard]] std::span<const std::byte> bytes() const override { return file_.bytes(); }
  void done_with(std::size_t offset, std::size_t count) override { file_.drop(offset, count); }

 private:
  os::MappedFile file_;
};

// The file up to the end of its metadata.
Result<tokenizer::GgufHead> head_of(const gguf::File& file, std::span<const std::byte> bytes) {
  const std::size_t size = file.metadata_bytes();
  if (size > tokenizer::kMaxGgufHeadBytes) {
    return invalid_argument("metadata: expected at most " +
                            std::to_string(tokenizer::kMaxGgufHeadBytes) + " bytes, found " +
                            std::to_string(size));
  }
  return tokenizer::GgufHead{std::string(reinterpret_cast<const char*>(bytes.data()), size)};
}

}  // namespace

ModelFolder::ModelFolder(const std::string& path) : folder_(path) {
  std::error_code error;
  const fs::path file(path);
  if (fs::is_regular_file(file, error)) {
    folder_ = file.has_parent_path() ? file.parent_path().string() : ".";
    gguf_name_ = file.filename().string();
  }
}

Result<std::unique_ptr<FileBytes>> ModelFolder::open(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || name == "..") {
    return invalid_argument("\"" + name + "\" is no plain file name");
  }
  PHALANX_TRY(os::MappedFile file, os::MappedFile::open(describe(name)));
  if (is_git_lfs_pointer(
          {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()})) {
    return data_loss(describe(name) + std::string(kGitLfsPointerFound));
  }
  return std::unique_ptr<FileBytes>(std::make_unique<MappedBytes>(std::move(file)));
}

bool ModelFolder::has(const std::string& name) const {
  return os::has_entry(describe(name));
}

std::string ModelFolder::describe(const std::string& name) const {
  return folder_.ends_with('/') ? folder_ + name : folder_ + "/" + name;
}

Result<tokenizer::TokenizerSource> tokenizer_source(ModelFolder& folder,
                                                    std::uint32_t model_tokens) {
  if (folder.gguf_name().empty()) {
    PHALANX_TRY(tokenizer::TokenizerSource source,
                tokenizer::read_tokenizer_source(fs::path(folder.folder())));
    std::get<tokenizer::TokenizerTexts>(source.content).model_tokens = model_tokens;
    return source;
  }
  std::string name = folder.gguf_name();
  for (;;) {
    PHALANX_TRY(const std::unique_ptr<FileBytes> bytes, folder.open(name));
    auto file = gguf::File::parse(bytes->bytes());
    if (!file) {
      return std::move(file).error().with(folder.describe(name));
    }
    PHALANX_TRY(const gguf::SplitKeys keys, gguf::split_keys(file->metadata()));
    PHALANX_TRY(const std::vector<std::string> names, gguf::split_names(name, keys));
    if (keys.number != 0 && name != names.front()) {
      name = names.front();  // the metadata is there
      continue;
    }
    auto head = head_of(*file, bytes->bytes());
    if (!head) {
      return std::move(head).error().with(folder.describe(name));
    }
    return tokenizer::TokenizerSource{.origin = folder.describe(name), .content = *std::move(head)};
  }
}

Status check_tokens(const tokenizer::Tokenizer& tokenizer, std::uint32_t model_tokens) {
  const std::string expected = "the tokenizer: expected at most " + std::to_string(model_tokens) +
                               " tokens, as the model has";
  if (tokenizer.vocab_size() > model_tokens) {
    return invalid_argument(expected + ", found " + std::to_string(tokenizer.vocab_size()) +
                            ": they do not belong together");
  }
  PHALANX_TRY(const std::vector<TokenId> around,
              tokenizer.encode("", {.add_special_tokens = true}));
  for (const TokenId id : around) {
    if (static_cast<std::uint32_t>(id) >= model_tokens) {
      return invalid_argument(expected + ", found " + std::to_string(id) + " put around each text");
    }
  }
  return ok();
}

std::string left_out_text(const tokenizer::Tokenizer& tokenizer) {
  const std::vector<std::string>& tokens = tokenizer.left_out();
  return std::to_string(tokens.size()) + (tokens.size() == 1 ? " added token" : " added tokens") +
         " of the tokenizer that the model has no embedding of, read as any text, the first: " +
         tokens.front();
}

Result<std::vector<TokenId>> end_tokens(const GenerationDefaults& defaults,
                                        const tokenizer::Tokenizer& tokenizer) {
  std::set<TokenId> tokens(defaults.eos.begin(), defaults.eos.end());
  if (const std::optional<TokenId> id = tokenizer.eos_id()) {
    tokens.insert(*id);
  }
  if (tokens.size() > step::kMaxEndTokens) {
    return invalid_argument("the model names " + std::to_string(tokens.size()) +
                            " end-of-sequence tokens; at most " +
                            std::to_string(step::kMaxEndTokens) + " are possible");
  }
  return std::vector<TokenId>(tokens.begin(), tokens.end());
}

Result<std::unique_ptr<tokenizer::Tokenizer>> load_tokenizer(ModelFolder& folder,
                                                             std::uint32_t model_tokens) {
  PHALANX_TRY(const tokenizer::TokenizerSource source, tokenizer_source(folder, model_tokens));
  return tokenizer::load_tokenizer(source);
}

}  // namespace phalanx::checkpoint
