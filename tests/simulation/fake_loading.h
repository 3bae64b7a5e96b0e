// SPDX-License-Identifier: Apache-2.0
// A machine that loads models in virtual time: their files are numbers, their memory is counted, and while a load goes
// on, everything else acts. Thread rule: one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/models/model_loading.h"
#include "tests/simulation/workload.h"

namespace dunlin::simulation {

inline constexpr absl::Duration kRepositoryTick = absl::Milliseconds(100);

// A loaded version of a model: it stands for ServedModel's weights, and is gone with them.
class LoadedVersion : public engine::StepObserver {
 public:
  LoadedVersion(std::string version_path, size_t version_bytes, std::function<void(const LoadedVersion&)> on_freed)
      : path(std::move(version_path)), bytes(version_bytes), on_freed_(std::move(on_freed)) {}
  ~LoadedVersion() override { on_freed_(*this); }
  void OnStep(int32_t, int32_t, engine::TimeNs) override {}

  const std::string path;
  const size_t bytes;
  int num_leases = 0;  // of requests

 private:
  const std::function<void(const LoadedVersion&)> on_freed_;
};

// The version that a lease holds. REQUIRES: FakeLoading has loaded it.
LoadedVersion* VersionOf(const server::ServedModel& model);

class FakeLoading : public server::ModelLoading {
 public:
  // act: what else happens at that moment. limit: bytes that the plan may give to models. All outlive this.
  FakeLoading(Dice* dice, size_t limit, std::function<void()> act) : dice_(dice), limit_(limit), act_(std::move(act)) {}

  absl::StatusOr<std::vector<server::PlannedModel>> PlanStart(const server::Config& config) override;
  absl::StatusOr<server::PlannedModel> PlanAdded(const server::ModelSettings& settings,
                                                 const std::vector<server::ModelMemory>& residents,
                                                 size_t kv_bytes) override;
  absl::StatusOr<std::unique_ptr<server::ServedModel>> Load(const server::PlannedModel& planned,
                                                            std::shared_ptr<engine::StepObserver> step_observer,
                                                            const std::atomic<bool>& stop) override;
  absl::Status CheckGolden(const server::ModelSettings&, const server::ServedModel&,
                           const std::atomic<bool>&) override {
    return absl::OkStatus();
  }
  absl::Time Now() const override { return now_; }
  void Sleep(absl::Duration time) override {
    now_ += time;
    act_();
  }

  // Bytes of the version at a path: 1 to 4.
  static size_t BytesOf(const std::string& path);
  // The model for which there was no room when it was planned last; "" if there was.
  const std::string& without_room() const { return without_room_; }
  void ForgetPlan() { without_room_.clear(); }
  size_t bytes_held() const { return bytes_held_; }
  const std::string& problem() const { return problem_; }

  std::set<std::string> broken;           // paths whose files are damaged
  bool may_throw = false;                 // a load may find no memory
  std::map<std::string, int> num_faults;  // of a model: loads that failed, and plans without room

 private:
  server::PlannedModel Planned(const server::ModelSettings& settings) const;
  absl::Status FaultOf(const server::PlannedModel& planned, const std::atomic<bool>& stop);

  Dice* dice_;
  const size_t limit_;
  const std::function<void()> act_;
  absl::Time now_ = absl::UnixEpoch();
  size_t bytes_held_ = 0;  // of loaded versions, and of the one that is being loaded
  std::string without_room_;
  std::string problem_;
};

}  // namespace dunlin::simulation
