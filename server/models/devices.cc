// SPDX-License-Identifier: Apache-2.0
#include "server/models/devices.h"

#include <spdlog/spdlog.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "engine/parallel/rank_devices.h"

namespace dunlin::server {
namespace {

using kernels::DeviceKind;

constexpr char kAuto[] = "auto";
constexpr char kCudaModule[] = "libdunlin_cuda.so";

}  // namespace

kernels::DeviceOptions ResolveDeviceOptions(kernels::DeviceOptions options) {
  if (options.cuda_module == kAuto) {
    std::error_code error;
    const std::filesystem::path binary = std::filesystem::read_symlink("/proc/self/exe", error);
    options.cuda_module = error ? "" : (binary.parent_path() / kCudaModule).string();
  }
  if (options.cublas_library == kAuto) options.cublas_library.clear();
  return options;
}

absl::StatusOr<kernels::Device*> Devices::For(const ModelSettings& settings) {
  std::string error;
  if (const auto* row = kernels::FindByName(kernels::kDeviceKindTable, settings.device); row != nullptr) {
    kernels::Device* device = Open(row->kind, &error);
    if (device != nullptr) return device;
    return absl::FailedPreconditionError(
        absl::StrCat("model \"", settings.name, "\": device ", row->name, " cannot be opened: ", error));
  }
  return ForAuto(settings.name);
}

absl::StatusOr<kernels::Device*> Devices::ForAuto(const std::string& model) {
  constexpr auto& kOrder = kernels::kDeviceAutoOrder;
  std::string error;
  for (size_t i = 0; i < kOrder.size(); ++i) {
    const bool tried = !failure_of(kOrder[i]).empty();
    if (kernels::Device* device = Open(kOrder[i], &error); device != nullptr) return device;
    if (!tried && i + 1 < kOrder.size()) {
      spdlog::info("no {} device, using the {}: {}", Traits(kOrder[i]).label, Traits(kOrder[i + 1]).label, error);
    }
  }
  return absl::FailedPreconditionError(
      absl::StrCat("model \"", model, "\": device ", Name(kOrder.back()), " cannot be opened: ", error));
}

kernels::Device* Devices::Open(DeviceKind kind, std::string* error) {
  for (const auto& device : opened_) {
    if (device->ops->kind == kind) return device.get();
  }
  std::string& failure = failure_of(kind);
  if (failure.empty()) {
    std::unique_ptr<kernels::Device> device = kernels::OpenDevice(kind, options_, &failure);
    if (device != nullptr) {
      spdlog::info("device {}", device->description);
      if (!device->warning.empty()) spdlog::warn("device {}: {}", Name(kind), device->warning);
      opened_.push_back(std::move(device));
      return opened_.back().get();
    }
  }
  *error = failure;
  return nullptr;
}

absl::StatusOr<std::vector<kernels::Device*>> Devices::RanksFor(const ModelSettings& settings,
                                                                kernels::Device* device) {
  const int32_t num_ranks = settings.source.num_ranks;
  if (num_ranks == 1) return std::vector{device};
  std::vector<std::unique_ptr<kernels::Device>>& opened = ranks_[{device->ops->kind, num_ranks, settings.rank_devices}];
  if (opened.empty()) {
    auto ranks = engine::OpenRankDevices(*device, options_, num_ranks, settings.rank_devices);
    if (!ranks.ok()) {
      return absl::Status(ranks.status().code(),
                          absl::StrCat("model \"", settings.name, "\": ", ranks.status().message()));
    }
    opened = *std::move(ranks);
    for (const auto& rank : opened) spdlog::info("device of one of {} ranks: {}", num_ranks, rank->description);
  }
  std::vector<kernels::Device*> ranks;
  ranks.reserve(opened.size());
  for (const auto& rank : opened) ranks.push_back(rank.get());
  return ranks;
}

}  // namespace dunlin::server
