// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/step_graphs.h"

#include <algorithm>

#include "engine/runtime/device_status.h"
#include "engine/runtime/memory_plan.h"

namespace dunlin::engine {
namespace {

// A prompt's chunks seldom have the same number of tokens twice, and a part of a recurrent model's step begins with
// copies between slots that the host names. Which rows have adapters, or are a prompt's, is in host memory, too.
bool Repeats(const PassInputs& inputs) {
  return inputs.num_tokens > 0 && inputs.num_tokens <= kMaxGraphRows && inputs.num_decode_tokens == inputs.num_tokens &&
         inputs.state_parts.count == 0 && inputs.adapters == nullptr && inputs.row_runs.count == 0;
}

}  // namespace

StepGraphs::StepGraphs(kernels::Device* device, const MemoryPlan& plan) : device_(device) {
  if (device == nullptr || plan.num_graphs == 0 || !device->ops->supports_graphs(device->context)) return;
  max_graphs_ = plan.num_graphs;
  Reserve(plan[BufferId::kGraphs] / static_cast<size_t>(plan.num_graphs));
  entries_.reserve(static_cast<size_t>(max_graphs_) + kMaxMet);
}

void StepGraphs::Reserve(size_t bytes_each) {
  if (bytes_each == 0) return;
  reserve_bytes_ = bytes_each;
  while (static_cast<int32_t>(reserve_.size()) < max_graphs_) {
    void* piece = device_->ops->allocate(device_->context, bytes_each);
    if (piece == nullptr) break;
    reserve_.push_back(piece);
  }
  max_graphs_ = static_cast<int32_t>(reserve_.size());
}

StepGraphs::~StepGraphs() {
  TurnOff();
}

void StepGraphs::TurnOff() {
  for (Entry& entry : entries_) Destroy(&entry);
  entries_.clear();
  for (void* piece : reserve_) device_->ops->release(device_->context, piece, reserve_bytes_);
  reserve_.clear();
  max_graphs_ = 0;
}

absl::Status StepGraphs::Run(const ExecutionProfile& profile, const PassInputs& inputs,
                             absl::FunctionRef<absl::Status()> pass) {
  if (!on() || !device_->ops->supports_graphs(device_->context) || !Repeats(inputs)) return pass();
  ++clock_;
  Entry* entry = Find(profile, inputs);
  if (entry == nullptr) {
    Add(profile, inputs);
    return pass();
  }
  entry->last_used = clock_;
  if (entry->graph == nullptr && !entry->refused && may_record_) Record(entry, pass);
  if (entry->graph == nullptr) return pass();
  return DeviceStatus(device_->ops->launch_graph(device_->context, entry->graph), "a recorded step");
}

StepGraphs::Entry* StepGraphs::Find(const ExecutionProfile& profile, const PassInputs& inputs) {
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.profile == profile && entry.inputs == inputs; });
  return found == entries_.end() ? nullptr : &*found;
}

StepGraphs::Entry* StepGraphs::Oldest(bool recorded) {
  Entry* oldest = nullptr;
  for (Entry& entry : entries_) {
    if ((entry.graph != nullptr) != recorded) continue;
    if (oldest == nullptr || entry.last_used < oldest->last_used) oldest = &entry;
  }
  return oldest;
}

// A pass that is met once takes no graph's place.
void StepGraphs::Add(const ExecutionProfile& profile, const PassInputs& inputs) {
  const size_t most = static_cast<size_t>(max_graphs_) + kMaxMet;
  Entry* entry = entries_.size() < most ? &entries_.emplace_back() : Oldest(false);
  *entry = {.profile = profile, .inputs = inputs, .last_used = clock_};
}

void StepGraphs::MakeRoom() {
  if (num_graphs_ == max_graphs_) return Destroy(Oldest(true));
  // The graphs and the pieces that are left are the whole reserve, but for what a recording that failed was given.
  if (num_graphs_ + static_cast<int32_t>(reserve_.size()) < max_graphs_ || reserve_.empty()) return;
  device_->ops->release(device_->context, reserve_.back(), reserve_bytes_);
  reserve_.pop_back();
}

// Where another thread records, the next step of this kind tries again. A failure in a recording that is the device's
// own comes again when the pass runs.
void StepGraphs::Record(Entry* entry, absl::FunctionRef<absl::Status()> pass) {
  MakeRoom();
  if (!device_->ops->begin_graph(device_->context)) return;
  may_record_ = false;
  const absl::Status status = pass();
  entry->graph = device_->ops->end_graph(device_->context);
  if (entry->graph != nullptr) ++num_graphs_;
  if (!status.ok()) Destroy(entry);
  entry->refused = entry->graph == nullptr;
  if (entry->refused) ++num_failed_;
}

void StepGraphs::Destroy(Entry* entry) {
  if (entry->graph == nullptr) return;
  device_->ops->destroy_graph(device_->context, entry->graph);
  entry->graph = nullptr;
  --num_graphs_;
}

}  // namespace dunlin::engine
