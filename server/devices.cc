#include "server/devices.h"

#include <spdlog/spdlog.h>

#include <filesystem>

#include "absl/strings/str_cat.h"

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
  if (settings.device == kAuto) {
    const bool tried = !no_cuda_.empty();
    if (kernels::Device* device = Open(DeviceKind::kCuda, &error); device != nullptr) return device;
    if (!tried) spdlog::info("no CUDA device, the CPU serves: {}", error);
  }
  const DeviceKind kind = settings.device == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu;
  kernels::Device* device = Open(kind, &error);
  if (device != nullptr) return device;
  return absl::FailedPreconditionError(
      absl::StrCat("model \"", settings.name, "\": device ", Name(kind), " cannot be opened: ", error));
}

kernels::Device* Devices::Open(DeviceKind kind, std::string* error) {
  for (const auto& device : opened_) {
    if (device->ops->kind == kind) return device.get();
  }
  if (kind == DeviceKind::kCuda && !no_cuda_.empty()) {
    *error = no_cuda_;
    return nullptr;
  }
  std::unique_ptr<kernels::Device> device = kernels::OpenDevice(kind, options_, error);
  if (device == nullptr) {
    if (kind == DeviceKind::kCuda) no_cuda_ = *error;
    return nullptr;
  }
  spdlog::info("device {}", device->description);
  opened_.push_back(std::move(device));
  return opened_.back().get();
}

}  // namespace dunlin::server
