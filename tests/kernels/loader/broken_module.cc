// SPDX-License-Identifier: Apache-2.0
// Modules that the loader must refuse; DUNLIN_BROKEN selects the fault.
#include "kernels/api/device_module.h"

namespace dunlin::kernels {
namespace {

constexpr DeviceOps LacksAll() {
  DeviceOps ops{};
  ops.kind = DeviceKind::kCuda;
  return ops;
}
constexpr DeviceOps kLacksAll = LacksAll();

DeviceContext* Open(const DeviceModuleOptions*, DeviceModuleReply*) {
  __builtin_trap();  // a refused module is never opened
}

constexpr DeviceModule kModule = {
    .abi_version = DUNLIN_BROKEN == 1 ? kDeviceModuleAbi + 1 : kDeviceModuleAbi,
    .api_digest = DUNLIN_BROKEN == 2 ? "of another build" : DUNLIN_API_DIGEST,
    .ops = &kLacksAll,
    .open = Open,
    .close = nullptr,
};

}  // namespace
}  // namespace dunlin::kernels

#if DUNLIN_BROKEN != 4
extern "C" [[gnu::visibility("default")]] const dunlin::kernels::DeviceModule* dunlin_device_module() {
  return &dunlin::kernels::kModule;
}
#else
extern "C" [[gnu::visibility("default")]] const void* dunlin_other_symbol() {
  return &dunlin::kernels::kModule;
}
#endif
