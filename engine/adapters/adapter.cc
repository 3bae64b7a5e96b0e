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

absl::StatusOr<std::shared_ptr<const Adapter>> Adapter::Create(const std::vector<kernels::Device*>& devices,
                                                               const PackedAdapter& packed, uint64_t id) {
  const AdapterLayout& layout = *packed.layout;
  std::shared_ptr<Adapter> adapter(new Adapter(packed.layout, id));
  for (size_t i = 0; i < devices.size(); ++i) {
    const size_t end = devices.size() == 1 ? layout.bytes : layout.up_begins[i + 1];
    adapter->parts_.push_back({.device = devices[i], .ups_begin = layout.up_begins[i], .ups_end = end});
    Part& part = adapter->parts_.back();
    if (absl::Status status = adapter->Fill(&part, packed); !status.ok()) return status;
    adapter->AddPairs(part);
  }
  return adapter;
}

absl::Status Adapter::Fill(Part* part, const PackedAdapter& packed) const {
  kernels::Device* device = part->device;
  const size_t up_bytes = part->ups_end - part->ups_begin;
  const size_t bytes = first_bytes() + up_bytes;
  part->memory = static_cast<std::byte*>(device->ops->allocate(device->context, bytes));
  if (part->memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("the device has no memory for ", bytes, " bytes"));
  }
  const std::byte* from = packed.matrices.data();
  KernelStatus copied = device->ops->copy_to_device(device->context, part->memory, from, first_bytes());
  if (copied == KernelStatus::kOk && up_bytes > 0) {
    copied =
        device->ops->copy_to_device(device->context, part->memory + first_bytes(), from + part->ups_begin, up_bytes);
  }
  if (copied == KernelStatus::kOk) copied = device->ops->synchronize(device->context);
  return copied == KernelStatus::kOk ? absl::OkStatus() : CopyFailed(copied);
}

// The layout has the pairs of one rank after another.
void Adapter::AddPairs(const Part& part) {
  for (size_t i = pairs_.size(); i < layout_->pairs.size() && layout_->pairs[i].up < part.ups_end; ++i) {
    const AdapterLayout::Placed& placed = layout_->pairs[i];
    kernels::LowRankPair& pair = pairs_.emplace_back(placed.pair);
    pair.down = part.memory + placed.down;
    pair.up = part.memory + first_bytes() + (placed.up - part.ups_begin);
  }
}

absl::StatusOr<PackedAdapter> Adapter::Pack() const {
  PackedAdapter packed{layout_, std::vector<std::byte>(layout_->bytes)};
  std::byte* const to = packed.matrices.data();
  for (const Part& part : parts_) {
    const kernels::DeviceOps& ops = *part.device->ops;
    KernelStatus copied = KernelStatus::kOk;
    if (&part == parts_.data()) copied = ops.copy_to_host(part.device->context, to, part.memory, first_bytes());
    if (copied == KernelStatus::kOk && part.ups_end > part.ups_begin) {
      copied = ops.copy_to_host(part.device->context, to + part.ups_begin, part.memory + first_bytes(),
                                part.ups_end - part.ups_begin);
    }
    if (copied == KernelStatus::kOk) copied = ops.synchronize(part.device->context);
    if (copied != KernelStatus::kOk) return CopyFailed(copied);
  }
  return packed;
}

Adapter::~Adapter() {
  for (const Part& part : parts_) {
    if (part.memory == nullptr) continue;
    part.device->ops->release(part.device->context, part.memory, first_bytes() + part.ups_end - part.ups_begin);
  }
}

}  // namespace dunlin::engine
