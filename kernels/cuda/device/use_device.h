// SPDX-License-Identifier: Apache-2.0
// The runtime's current device, which each thread has of its own. Entries of the table make it their context's, so that
// a thread may call those of several.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/context.h"

namespace dunlin::kernels::cuda {

// What is refused shows in the call that follows.
inline void UseDevice(int32_t device) {
  int current = -1;
  if (cudaGetDevice(&current) == cudaSuccess && current == device) return;
  if (cudaSetDevice(device) != cudaSuccess) (void)cudaGetLastError();
}

template <auto kFunction>
struct EntryOnDevice;

template <typename Result, typename Own, typename... Args, Result (*kFunction)(Own*, Args...)>
struct EntryOnDevice<kFunction> {
  using Context = std::conditional_t<std::is_const_v<Own>, const kernels::DeviceContext, kernels::DeviceContext>;
  static Result Call(Context* context, Args... args) {
    auto* own = reinterpret_cast<Own*>(context);
    UseDevice(own->device);
    return kFunction(own, args...);
  }
};

// kOnDevice<Gemm>: kEntry (kernels/shared/device_entry.h) on the context's device.
template <auto kFunction>
inline constexpr auto kOnDevice = EntryOnDevice<kFunction>::Call;

}  // namespace dunlin::kernels::cuda
