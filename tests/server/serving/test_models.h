// SPDX-License-Identifier: Apache-2.0
// Served models over real engines with scripted runtimes, for tests of the serving core and of front ends: "tiny"
// (byte-level tokenizer of tests/golden/text, vocabulary 902, end of sequence 0, a small chat template), "bare" (the
// same, no tokenizer) and "encoder" (tests/golden/encoders/bert_sentence, really computed; control().held holds it
// too, as what AddEncoder adds).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/request/options.h"
#include "kernels/api/device.h"
#include "server/models/repository.h"
#include "server/serving/record/request_record.h"
#include "tests/server/serving/scripted_runtime.h"

namespace dunlin::server {

inline constexpr int32_t kTinyVocab = 902;
inline constexpr int32_t kTinyContext = 512;

class RecordingObserver : public RequestObserver {
 public:
  void OnTokenInterval(const std::string& model, const engine::ExecutionProfile& profile,
                       engine::TimeNs interval) override;
  void OnFinished(const RequestRecord& record) override;
  void OnIgnored(std::string_view route, const IgnoredNames& names) override;
  // Waits until `count` calls have ended, 10 s at most; what has ended so far, in order.
  std::vector<RequestRecord> WaitFor(size_t count) const;
  int64_t intervals() const;
  // "ROUTE: NAMES", in order.
  std::vector<std::string> ignored() const;

 private:
  mutable absl::Mutex mutex_;  // guards what follows
  std::vector<RequestRecord> records_ ABSL_GUARDED_BY(mutex_);
  int64_t intervals_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> ignored_ ABSL_GUARDED_BY(mutex_);
};

class TestModels {
 public:
  static constexpr int32_t kNumPages = 4096;

  // num_pages: of each decoder's KV cache, 16 tokens each.
  explicit TestModels(const engine::EngineOptions& options, int32_t num_pages = kNumPages);

  RuntimeControl& control() { return control_; }
  ModelRepository& repository() { return repository_; }
  // "banning": as "tiny", with a generation_config.json that suppresses 3 and 4, 5 at the beginning, bans 6 7, and has
  // max_new_tokens 12.
  void AddBanning();
  // "unembedded" and "unembedded_encoder": as "tiny" and "encoder", with the added token "<image>", which is the first
  // that the embedding has no row for.
  void AddUnembedded();
  // As "tiny", with the chat template `text` and the forms of output that it shows.
  void AddChatting(const std::string& name, const std::string& text);
  // An encoder as "encoder": the folder tests/golden/encoders/<folder> in FP32 and BF16.
  void AddEncoder(const std::string& name, const std::string& folder, const engine::EngineOptions& options);
  // Another version of "tiny", which is not in the repository.
  std::unique_ptr<ServedModel> NewTiny() { return MakeModel("tiny", true, {}); }
  const ServedModel& model(const std::string& name) const { return *repository_.Lease(name); }

 private:
  std::unique_ptr<ServedModel> MakeModel(const std::string& name, bool tokenizer, const engine::EngineOptions& options);
  std::unique_ptr<ServedModel> MakeEncoder(const std::string& name, const std::string& folder,
                                           const engine::EngineOptions& options);

  const int32_t num_pages_;
  RuntimeControl control_;
  std::unique_ptr<kernels::Device> device_;
  ModelRepository repository_;
};

// Waits until `condition` holds, 10 s at most.
bool Eventually(const std::function<bool()>& condition);

}  // namespace dunlin::server
