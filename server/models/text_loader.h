// SPDX-License-Identifier: Apache-2.0
// Reads a model's text files and its tokenizer on a thread of its own, beside the weights: a vocabulary of 128 thousand
// tokens takes one thread half a second, most of the time that 800 MB of weights take from the page cache.
// Thread rule: used by one thread; the background thread is internal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "text/tokenizer.h"

namespace dunlin::server {

struct ModelText {
  std::unique_ptr<engine::TextFiles> files;    // of the directory or the GGUF file; empty for random weights
  std::unique_ptr<text::Tokenizer> tokenizer;  // null where the files have none
};

class TextLoader {
 public:
  // Starts reading. path: as ModelSource::path. vocab_size: as Tokenizer::Load's limit.
  TextLoader(std::string path, int64_t vocab_size);
  ~TextLoader();
  TextLoader(const TextLoader&) = delete;
  TextLoader& operator=(const TextLoader&) = delete;

  // Waits for the thread. Call it once. Errors: as OpenModelFiles and Tokenizer::Load, and RESOURCE_EXHAUSTED when the
  // thread could not be started.
  absl::StatusOr<ModelText> Take();

 private:
  absl::Status Read();

  const std::string path_;
  const int64_t vocab_size_;
  ModelText text_;       // of the thread until it is joined
  absl::Status status_;  // as text_
  std::thread thread_;   // last: it uses all of the above
};

}  // namespace dunlin::server
