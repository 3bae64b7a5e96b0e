#include "engine/runtime/step_buffers.h"

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

absl::StatusOr<std::unique_ptr<StepBuffers>> StepBuffers::Allocate(const MemoryPlan& plan, kernels::Device* device) {
  std::unique_ptr<StepBuffers> buffers(new StepBuffers(plan, device));
  for (size_t i = 0; i < kNumBuffers; ++i) {
    if (plan.bytes[i] == 0) continue;
    buffers->memory_[i] = device->ops->allocate(device->context, plan.bytes[i]);
    if (buffers->memory_[i] != nullptr) continue;
    const BufferTraits& traits = Traits(static_cast<BufferId>(i));
    return absl::ResourceExhaustedError(absl::StrCat("device memory has no room for the ", traits.name, " buffer of ",
                                                     plan.bytes[i], " bytes (", traits.key, ")"));
  }
  return buffers;
}

StepBuffers::~StepBuffers() {
  for (size_t i = 0; i < kNumBuffers; ++i) {
    if (memory_[i] != nullptr) device_->ops->release(device_->context, memory_[i], plan_.bytes[i]);
  }
}

}  // namespace dunlin::engine
