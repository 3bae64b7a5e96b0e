// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/step_graphs.h"

#include <algorithm>

#include "engine/runtime/device_status.h"

namespace dunlin::engine {
namespace {

// A prompt's chunks seldom have the same number of tokens twice, and a part of a recurrent model's step begins with
// copies between slots that the host names. Which rows have adapters is in host memory, too.
bool Repeats(const PassInputs& inputs) {
  return inputs.num_tokens > 0 && inputs.num_tokens <= kMaxGraphRows && inputs.num_decode_tokens == inputs.num_tokens &&
         inputs.state_parts.count == 0 && inputs.adapters == nullptr;
}

}  // namespace

StepGraphs::StepGraphs(kernels::Device* device)
    : device_(device != nullptr && device->ops->supports_graphs(device->context) ? device : nullptr) {
  if (on()) entries_.reserve(kMaxGraphs);
}

StepGraphs::~StepGraphs() {
  for (Entry& entry : entries_) Destroy(&entry);
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
  if (entry->graph == nullptr && !entry->refused) Record(entry, pass);
  if (entry->graph == nullptr) return pass();
  return DeviceStatus(device_->ops->launch_graph(device_->context, entry->graph), "a recorded step");
}

StepGraphs::Entry* StepGraphs::Find(const ExecutionProfile& profile, const PassInputs& inputs) {
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.profile == profile && entry.inputs == inputs; });
  return found == entries_.end() ? nullptr : &*found;
}

void StepGraphs::Add(const ExecutionProfile& profile, const PassInputs& inputs) {
  Entry* entry = nullptr;
  if (entries_.size() < kMaxGraphs) {
    entry = &entries_.emplace_back();
  } else {
    entry = &*std::ranges::min_element(entries_, {}, &Entry::last_used);
    Destroy(entry);
  }
  *entry = {.profile = profile, .inputs = inputs, .last_used = clock_};
}

// Where another thread records, the next step of this kind tries again. A failure in a recording that is the device's
// own comes again when the pass runs.
void StepGraphs::Record(Entry* entry, absl::FunctionRef<absl::Status()> pass) {
  if (!device_->ops->begin_graph(device_->context)) return;
  const absl::Status status = pass();
  entry->graph = device_->ops->end_graph(device_->context);
  if (!status.ok()) Destroy(entry);
  entry->refused = entry->graph == nullptr;
}

void StepGraphs::Destroy(Entry* entry) {
  if (entry->graph != nullptr) device_->ops->destroy_graph(device_->context, entry->graph);
  entry->graph = nullptr;
}

}  // namespace dunlin::engine
