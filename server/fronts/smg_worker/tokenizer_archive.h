// SPDX-License-Identifier: Apache-2.0
// The files of a model's tokenizer as a ZIP archive, uncompressed. Reads files: text pool only.
// Source: PKWARE APPNOTE.TXT 6.3, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.16 (its end).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/models/repository.h"

namespace dunlin::server {

struct TokenizerArchive {
  std::string bytes;
  std::string sha256;  // in hexadecimal
};

// Names and contents -> archive. REQUIRES: less than 4 GiB in all, at most 65535 files.
std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& files);

// The archives in use: calls for one model share one. Any thread, but Get, which reads files.
class TokenizerArchives {
 public:
  // Errors: FAILED_PRECONDITION (the model has no directory with a tokenizer.json); those of engine::Directory.
  absl::StatusOr<std::shared_ptr<const TokenizerArchive>> Get(const ModelLease& model);

 private:
  absl::Mutex mutex_;  // guards what follows; held while files are read, so that nobody reads them twice
  std::weak_ptr<const ServedModel> model_ ABSL_GUARDED_BY(mutex_);  // of archive_
  std::weak_ptr<const TokenizerArchive> archive_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
