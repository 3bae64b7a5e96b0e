// The devices that a server's models run on: one of a kind, opened when the first model asks for it.
// Thread rule: the main thread, before READY; the devices themselves are for any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "server/config/config.h"

namespace dunlin::server {

// What kernels::OpenDevice takes, from config words: "auto" becomes what it stands for.
kernels::DeviceOptions ResolveDeviceOptions(kernels::DeviceOptions options);

class Devices {
 public:
  // options: as the config has them.
  explicit Devices(const kernels::DeviceOptions& options) : options_(ResolveDeviceOptions(options)) {}

  // The device of a model. "auto" is CUDA where such a device opens, else the CPU; why not is logged, once.
  // FAILED_PRECONDITION with the reason when the kind that is asked for has no device.
  absl::StatusOr<kernels::Device*> For(const ModelSettings& settings);

 private:
  // Null, with the reason in *error. CUDA is tried once.
  kernels::Device* Open(kernels::DeviceKind kind, std::string* error);

  const kernels::DeviceOptions options_;
  std::vector<std::unique_ptr<kernels::Device>> opened_;
  std::string no_cuda_;  // why CUDA did not open; empty while it was not tried
};

}  // namespace dunlin::server
