// SPDX-License-Identifier: Apache-2.0
#include "server/commands/model_files.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "engine/base/bounded_read.h"

namespace dunlin::server {
namespace {

namespace fs = std::filesystem;

// Makes `to` a copy-on-write clone of `from` where the file system supports it (btrfs, xfs); false elsewhere.
bool ShareBlocks(const fs::path& from, const fs::path& to) {
  const int source = open(from.c_str(), O_RDONLY | O_CLOEXEC);
  const int target = source < 0 ? -1 : open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const bool shared = target >= 0 && ioctl(target, FICLONE, source) == 0;
  if (source >= 0) close(source);
  if (target >= 0) close(target);
  return shared;
}

// 0 of a file that is not there.
uintmax_t SizeOf(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

// Copies atomically: `to` is either complete or absent. Not a hard link, which would change the ctime of a file that a
// server may be reading, and would let a later edit of one change both.
std::error_code CopyFile(const fs::path& from, const fs::path& to) {
  fs::path part = to;
  part += ".part";
  std::error_code error;
  if (!ShareBlocks(from, part)) fs::copy_file(from, part, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(part, to, error);
  if (!error) return error;
  // The library says "Input/output error" of a full disk.
  std::error_code ignored;
  const bool full = SizeOf(from) > fs::space(to.parent_path(), ignored).available + SizeOf(part);
  fs::remove(part, ignored);
  return full ? std::make_error_code(std::errc::no_space_on_device) : error;
}

}  // namespace

std::error_code CopyModelFiles(const fs::path& from, const fs::path& out,
                               const std::function<bool(const std::string& name)>& wanted) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error || fs::equivalent(from, out, error)) return error;
  for (const fs::directory_entry& entry : fs::directory_iterator(from, error)) {
    const fs::path target = out / entry.path().filename();
    if (!entry.is_regular_file() || !wanted(entry.path().filename()) || fs::exists(target)) continue;
    error = CopyFile(entry.path(), target);
    if (error) return error;
  }
  return error;
}

absl::StatusOr<std::vector<engine::TokenId>> ReadTokens(const text::Tokenizer& tokenizer, int64_t vocab_size,
                                                        const char* option, const std::string& path,
                                                        int64_t max_tokens) {
  std::ifstream stream(path, std::ios::binary);
  const absl::StatusOr<std::string> text = engine::ReadAtMost(engine::kMaxNamedTextBytes, &stream);
  if (!text.ok()) {
    return absl::Status(absl::IsDataLoss(text.status()) ? absl::StatusCode::kNotFound : text.status().code(),
                        absl::StrCat(option, " ", path, " ", text.status().message()));
  }
  absl::StatusOr<std::vector<engine::TokenId>> tokens = tokenizer.Encode(*text);
  if (tokens.ok() && tokens->size() > static_cast<size_t>(max_tokens)) tokens->resize(static_cast<size_t>(max_tokens));
  if (!tokens.ok()) return tokens;
  const auto unknown =
      std::find_if(tokens->begin(), tokens->end(), [vocab_size](engine::TokenId id) { return id >= vocab_size; });
  if (unknown == tokens->end()) return tokens;
  return absl::InvalidArgumentError(absl::StrCat(option, " ", path, " has a token with id ", *unknown,
                                                 "; the model has ", vocab_size, " (embedding rows)"));
}

}  // namespace dunlin::server
