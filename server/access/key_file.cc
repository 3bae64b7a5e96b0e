// SPDX-License-Identifier: Apache-2.0
#include "server/access/key_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/file.h"

namespace dunlin::server {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
// A file that was written so shortly before it is read may change again without another time: file systems keep time in
// ticks, of 10 ms at most.
constexpr int64_t kTickNs = 20'000'000;

int64_t Nanoseconds(const timespec& time) {
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

}  // namespace

absl::StatusOr<std::string> ReadKeyFile(const std::string& path) {
  const std::filesystem::path parts = std::filesystem::absolute(path);
  const auto with_path = [&path](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("key file ", path, ": ", status.message()));
  };
  const absl::StatusOr<engine::Directory> directory = engine::Directory::Open(parts.parent_path().string());
  if (!directory.ok()) return with_path(directory.status());
  absl::StatusOr<std::string> text = directory->ReadFile(parts.filename().string(), kMaxKeyFileBytes);
  if (!text.ok()) return with_path(text.status());
  return text;
}

KeyFile::Stamp KeyFile::StampNow() const {
  struct stat found {};
  if (stat(path_.c_str(), &found) != 0) return {};
  return {found.st_dev, found.st_ino, found.st_size, Nanoseconds(found.st_mtim), Nanoseconds(found.st_ctim)};
}

std::optional<absl::Status> KeyFile::ReadIfChanged() {
  const Stamp now = StampNow();
  if (stamp_ == now) return std::nullopt;
  stamp_ = now;
  if (absl::GetCurrentTimeNanos() - now.ctime_ns < kTickNs) stamp_.reset();
  const absl::StatusOr<std::string> text = ReadKeyFile(path_);
  if (!text.ok()) {
    access_->NoteReading(false);
    last_.reset();  // the same text is news when it is back
    return text.status();
  }
  const KeyDigest digest = DigestOf(*text);
  if (last_ == digest) return std::nullopt;
  last_ = digest;
  return Read(*text);
}

absl::Status KeyFile::Read(const std::string& text) {
  absl::StatusOr<std::shared_ptr<const KeySet>> keys = KeySet::Parse(text, absl::StrCat("key file ", path_));
  access_->NoteReading(keys.ok());
  if (!keys.ok()) return keys.status();
  access_->Use(*std::move(keys));
  return absl::OkStatus();
}

}  // namespace dunlin::server
