// SPDX-License-Identifier: Apache-2.0
// The devices that the models run on: one per kind, opened when the first model needs it.
// Thread rule: one call at a time; the devices themselves may be used on any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "server/config/config.h"

namespace dunlin::server {

// Resolves options for kernels::OpenDevice: replaces "auto" with the path or default that it stands for.
kernels::DeviceOptions ResolveDeviceOptions(kernels::DeviceOptions options);

class Devices {
 public:
  // options: as in the config.
  explicit Devices(const kernels::DeviceOptions& options) : options_(ResolveDeviceOptions(options)) {}

  // The device that a model's config names. "auto" is the first of kernels::kDeviceAutoOrder that can be opened (CUDA,
  // else the CPU); the reason why a kind cannot be opened is logged once. FAILED_PRECONDITION with the reason if no
  // such device can be opened.
  absl::StatusOr<kernels::Device*> For(const ModelSettings& settings);

  // The devices of the ranks of a model on `device`, which is For's: contexts of their own, on the CPU sharing the
  // threads of compute.threads, on CUDA one for each of settings.rank_devices. Models with the same ranks share them.
  // One rank: `device` alone. Errors: as OpenRankDevices.
  absl::StatusOr<std::vector<kernels::Device*>> RanksFor(const ModelSettings& settings, kernels::Device* device);

 private:
  absl::StatusOr<kernels::Device*> ForAuto(const std::string& model);
  // On failure null, with the reason in *error. Each kind is tried only once.
  kernels::Device* Open(kernels::DeviceKind kind, std::string* error);
  std::string& failure_of(kernels::DeviceKind kind) { return failures_[static_cast<size_t>(kind)]; }

  const kernels::DeviceOptions options_;
  std::vector<std::unique_ptr<kernels::Device>> opened_;
  // By the kind of their device, their number and rank_devices.
  using RankKey = std::tuple<kernels::DeviceKind, int32_t, std::vector<int32_t>>;
  std::map<RankKey, std::vector<std::unique_ptr<kernels::Device>>> ranks_;
  // Why a kind could not be opened, by DeviceKind; empty if it was opened or not tried.
  std::array<std::string, kernels::kNumDeviceKinds> failures_;
};

}  // namespace dunlin::server
