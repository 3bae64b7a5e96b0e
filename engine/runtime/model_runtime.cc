// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/model_runtime.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/runtime/rank_links.h"
#include "engine/runtime/record_steps.h"
#include "engine/runtime/warm_up.h"

namespace dunlin::engine {
namespace {

StepHandle After(StepHandle handle) {
  return (handle + 1) & 0x3FFFFFFF;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelRuntime>> ModelRuntime::Create(const Model* model, const EngineOptions& options) {
  const int32_t num_ranks = model->num_ranks();
  if (model->config().is_encoder()) {
    return absl::FailedPreconditionError(
        absl::StrCat(model->config().architecture, " is an encoder: it cannot generate"));
  }
  absl::StatusOr<std::vector<MemoryPlan>> plans =
      PlanRanks(model->config(), num_ranks, model->precisions(), *model->device(), options);
  if (!plans.ok()) return plans.status();
  std::unique_ptr<ModelRuntime> runtime(new ModelRuntime(model, SumOf(*plans)));
  if (absl::Status status = runtime->StartRanks(*plans, options); !status.ok()) return status;
  return runtime;
}

ModelRuntime::ModelRuntime(const Model* model, MemoryPlan plan)
    : model_(model), plan_(std::move(plan)), depth_(plan_.steps_in_flight) {}

absl::Status ModelRuntime::StartRanks(const std::vector<MemoryPlan>& plans, const EngineOptions& options) {
  const int32_t num_ranks = model_->num_ranks();
  EngineOptions own = options;
  if (num_ranks > 1) {
    absl::StatusOr<std::unique_ptr<RankTeam>> team = RankTeam::Start(num_ranks);
    if (!team.ok()) return team.status();
    team_ = *std::move(team);
    if (!team_->cpus(0).empty()) own.kv_backing = {};  // pages that are backed later lie on all nodes in turn
    absl::StatusOr<std::unique_ptr<DeviceLinks>> links = LinkRanks(*model_, team_.get());
    if (!links.ok()) return links.status();
    links_ = *std::move(links);
  }
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    const ScopedCpus bound(team_ == nullptr ? std::vector<int>() : team_->cpus(rank));
    const bool shares = team_ != nullptr && links_ == nullptr;
    const RankRuntime::Team team{shares ? team_->group() : nullptr, rank == 0 ? nullptr : ranks_.front().get()};
    if (rank > 0) own.kv_backing.on_end = nullptr;  // rank 0's says it once
    absl::StatusOr<std::unique_ptr<RankRuntime>> made =
        RankRuntime::Create(&model_->of_rank(rank), plans[static_cast<size_t>(rank)], own, team);
    if (!made.ok()) return made.status();
    ranks_.push_back(*std::move(made));
  }
  if (links_ == nullptr) return absl::OkStatus();
  std::vector<StepBuffers*> buffers;
  for (const std::unique_ptr<RankRuntime>& rank : ranks_) buffers.push_back(rank->buffers());
  LinkBuffers(buffers, team_.get(), links_.get());
  return absl::OkStatus();
}

ModelRuntime::~ModelRuntime() {
  EndLinkedRanks(*model_, links_.get());
}

// Pages that all ranks have memory for.
KvPoolState ModelRuntime::kv_pool() const {
  KvPoolState state = ranks_.front()->kv_pool();
  for (size_t rank = 1; rank < ranks_.size(); ++rank) {
    const KvPoolState other = ranks_[rank]->kv_pool();
    state.num_pages = std::min(state.num_pages, other.num_pages);
    state.grows = state.grows || other.grows;
  }
  return state;
}

int32_t ModelRuntime::tokens_per_page(Precision precision) const {
  const std::vector<Precision>& resident = model_->precisions();
  const bool is_resident = std::find(resident.begin(), resident.end(), precision) != resident.end();
  return is_resident ? KvLayoutOf(memory_plan().kv_shapes, 0, precision, memory_plan().kv_fp8).tokens_per_page : 0;
}

bool ModelRuntime::prefill_matches_decode() const {
  return PrefillMatchesDecode(*model_->device(), model_->precisions(), memory_plan().deterministic);
}

absl::Status ModelRuntime::WarmUp(const ProfileTable& profiles, std::string* notice) {
  if (team_ != nullptr) {
    if (links_ == nullptr) return absl::OkStatus();
    NoteLinks(*links_, notice);
    return RecordDecodeSteps(*model_, profiles, this, notice);
  }
  absl::Status status = engine::WarmUp(*model_, profiles, ranks_.front()->buffers(), notice);
  return status.ok() ? RecordDecodeSteps(*model_, profiles, this, notice) : status;
}

absl::StatusOr<StepHandle> ModelRuntime::Launch(const StepPlan& plan) {
  DUNLIN_CHECK(num_in_flight_ < depth(), "more steps in flight than the depth");
  DUNLIN_CHECK(plan.sequences.size() <= static_cast<size_t>(memory_plan().max_sequences),
               "a plan holds more sequences than max_sequences");
  const size_t slot = SlotOf(next_handle_);
  absl::Status launched = team_ == nullptr ? ranks_.front()->Launch(plan, slot) : LaunchRanks(plan, slot);
  if (!launched.ok()) return launched;
  ++num_in_flight_;
  const StepHandle handle = next_handle_;
  next_handle_ = After(handle);
  return handle;
}

absl::Status ModelRuntime::Predict(const StepPlan& plan, std::span<const int32_t> hidden_rows, StepResult* result) {
  const auto predict = [&](int32_t rank) { return ranks_[static_cast<size_t>(rank)]->Predict(plan, hidden_rows); };
  absl::Status status = team_ == nullptr ? predict(0) : team_->Run(predict);
  if (status.ok()) ranks_.front()->ReadPrediction(result);
  return status;
}

// Where ranks share their memory, steps of the others have nothing to collect: their device has run them when they
// return.
absl::Status ModelRuntime::LaunchRanks(const StepPlan& plan, size_t slot) {
  return team_->Run([&](int32_t rank) {
    RankRuntime& runtime = *ranks_[static_cast<size_t>(rank)];
    absl::Status status = runtime.Launch(plan, slot);
    if (status.ok() && rank > 0 && links_ == nullptr) status = runtime.Wait(slot);
    return status;
  });
}

void ModelRuntime::TurnOffGraphs() {
  for (const std::unique_ptr<RankRuntime>& rank : ranks_) rank->graphs()->TurnOff();
}

absl::Status ModelRuntime::Collect(StepHandle handle, StepResult* result) {
  DUNLIN_CHECK(num_in_flight_ > 0 && handle == oldest_, "collecting a step that is not the oldest in flight");
  --num_in_flight_;
  oldest_ = After(handle);
  RankRuntime& first = *ranks_.front();
  const size_t slot = SlotOf(handle);
  // Each linked rank on its thread, so that one that fails ends what the others wait for.
  const auto wait = [&](int32_t rank) { return ranks_[static_cast<size_t>(rank)]->Wait(slot); };
  absl::Status status = links_ == nullptr ? first.Wait(slot) : team_->Run(wait);
  if (!status.ok()) return status;
  first.Read(SlotOf(handle), result);
  return absl::OkStatus();
}

}  // namespace dunlin::engine
