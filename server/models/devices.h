// SPDX-License-Identifier: Apache-2.0
// The devices that the models run on: one per kind, opened when the first model asks for it.
// Thread rule: the main thread, before READY; the devices themselves are for any thread.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "server/config/config.h"

namespace dunlin::server {

// The options for kernels::OpenDevice: replaces "auto" by the path or default that it stands for.
kernels::DeviceOptions ResolveDeviceOptions(kernels::DeviceOptions options);

class Devices {
 public:
  // options: as the config has them.
  explicit Devices(const kernels::DeviceOptions& options) : options_(ResolveDeviceOptions(options)) {}

  // The device that a model's config names. "auto" is the first of kernels::kDeviceAutoOrder that opens (CUDA, else the
  // CPU); why a kind did not open is logged once. FAILED_PRECONDITION with the reason when no such device opens.
  absl::StatusOr<kernels::Device*> For(const ModelSettings& settings);

 private:
  absl::StatusOr<kernels::Device*> ForAuto(const std::string& model);
  // Null, with the reason in *error. A kind is tried once.
  kernels::Device* Open(kernels::DeviceKind kind, std::string* error);
  std::string& failure_of(kernels::DeviceKind kind) { return failures_[static_cast<size_t>(kind)]; }

  const kernels::DeviceOptions options_;
  std::vector<std::unique_ptr<kernels::Device>> opened_;
  // Why a kind did not open, by DeviceKind; empty where it did or was not tried.
  std::array<std::string, kernels::kNumDeviceKinds> failures_;
};

}  // namespace dunlin::server
