// SPDX-License-Identifier: Apache-2.0
#include "engine/adapters/adapter.h"

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

using kernels::KernelStatus;

absl::Status CopyFailed(KernelStatus status) {
  return absl::InternalError(absl::StrCat("copy of an adapter failed: ", kernels::Name(status)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Adapter>> Adapter::Create(kernels::Device* device, const PackedAdapter& packed,
                                                               uint64_t id) {
  const AdapterLayout& layout = *packed.layout;
  std::shared_ptr<Adapter> adapter(new Adapter(device, packed.layout, id));
  adapter->memory_ = device->ops->allocate(device->context, layout.bytes);
  if (adapter->memory_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("the device has no memory for ", layout.bytes, " bytes"));
  }
  KernelStatus copied =
      device->ops->copy_to_device(device->context, adapter->memory_, packed.matrices.data(), layout.bytes);
  if (copied == KernelStatus::kOk) copied = device->ops->synchronize(device->context);
  if (copied != KernelStatus::kOk) return CopyFailed(copied);
  const auto* memory = static_cast<const std::byte*>(adapter->memory_);
  for (const AdapterLayout::Placed& placed : layout.pairs) {
    kernels::LowRankPair& pair = adapter->pairs_.emplace_back(placed.pair);
    pair.down = memory + placed.down;
    pair.up = memory + placed.up;
  }
  return adapter;
}

absl::StatusOr<PackedAdapter> Adapter::Pack() const {
  PackedAdapter packed{layout_, std::vector<std::byte>(layout_->bytes)};
  KernelStatus copied = device_->ops->copy_to_host(device_->context, packed.matrices.data(), memory_, layout_->bytes);
  if (copied == KernelStatus::kOk) copied = device_->ops->synchronize(device_->context);
  if (copied != KernelStatus::kOk) return CopyFailed(copied);
  return packed;
}

Adapter::~Adapter() {
  if (memory_ != nullptr) device_->ops->release(device_->context, memory_, layout_->bytes);
}

}  // namespace dunlin::engine
