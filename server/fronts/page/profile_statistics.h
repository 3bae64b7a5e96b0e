// SPDX-License-Identifier: Apache-2.0
// The document of GET /status/profiles: of each model and profile, the generations that ended OK since the server
// started, whatever protocol they came by: their tokens, and histograms of the time to the first token and of the time
// per further token; and of all that generated, ended or not, one of the times between two tokens. Thread rule: any
// thread; one short lock per token and per call that ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/models/repository.h"
#include "server/serving/record/request_record.h"

namespace dunlin::server::page {

// A histogram of times. Bucket i counts those up to EdgeMs(i), the last one all others.
class TimeHistogram {
 public:
  static constexpr size_t kNumEdges = 64;

  // In milliseconds, ascending: 0.05 * 1.25^i, up to about one minute.
  static double EdgeMs(size_t i);

  void Add(engine::TimeNs time);
  const std::array<uint64_t, kNumEdges + 1>& counts() const { return counts_; }

 private:
  std::array<uint64_t, kNumEdges + 1> counts_{};
};

class ProfileStatistics final : public RequestObserver {
 public:
  // Calls of models that it does not serve are not counted: their names are the clients'. models outlives this object.
  explicit ProfileStatistics(const ModelRepository& models) : models_(models) {}

  void OnTokenInterval(const std::string& model, const engine::ExecutionProfile& profile,
                       engine::TimeNs interval) override;
  void OnFinished(const RequestRecord& record) override;

  // {"edges_ms":[...],"models":[{"name","profiles":[{"attention_backend","precision","requests","output_tokens",
  // "ttft":[...],"itl":[...],"per_token":[...]}]}]}: profiles without a generation that ended are left out; ttft, itl
  // and per_token are counts by bucket, one more than there are edges.
  std::string Document(std::span<const ModelLease> models) const;

 private:
  struct Counts {
    uint64_t requests = 0;
    uint64_t output_tokens = 0;
    TimeHistogram ttft;
    TimeHistogram itl;        // of two tokens of an output
    TimeHistogram per_token;  // of an output, its tokens after the first
  };
  // By backend and precision: the other parts of a profile are the model's.
  using ByProfile = std::map<std::pair<engine::AttentionBackend, engine::Precision>, Counts>;

  const ModelRepository& models_;
  mutable absl::Mutex mutex_;  // guards counts_, between calls that generate and those that read
  absl::flat_hash_map<std::string, ByProfile> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server::page
