// SPDX-License-Identifier: Apache-2.0
#include "server/models/text_loader.h"

#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/thread_name.h"
#include "engine/model/load/gguf_model.h"

namespace dunlin::server {
namespace {

absl::StatusOr<std::unique_ptr<engine::TextFiles>> OpenFiles(const std::string& path) {
  if (!path.empty()) return engine::OpenModelFiles(path);
  return std::make_unique<engine::MemoryFiles>(std::map<std::string, std::string, std::less<>>());
}

}  // namespace

TextLoader::TextLoader(std::string path, int64_t vocab_size) : path_(std::move(path)), vocab_size_(vocab_size) {
  try {
    thread_ = std::thread([this] {
      engine::NameThread("load-text");
      status_ = Read();
    });
  } catch (const std::system_error& error) {
    status_ = absl::ResourceExhaustedError(absl::StrCat("could not start the tokenizer's thread: ", error.what()));
  }
}

TextLoader::~TextLoader() {
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<ModelText> TextLoader::Take() {
  if (thread_.joinable()) thread_.join();
  if (!status_.ok()) return status_;
  return std::move(text_);
}

absl::Status TextLoader::Read() {
  auto files = OpenFiles(path_);
  if (!files.ok()) return files.status();
  text_.files = *std::move(files);
  if (!text::Tokenizer::IsIn(*text_.files)) return absl::OkStatus();
  auto tokenizer = text::Tokenizer::Load(*text_.files, vocab_size_);
  if (!tokenizer.ok()) return tokenizer.status();
  text_.tokenizer = *std::move(tokenizer);
  return absl::OkStatus();
}

}  // namespace dunlin::server
