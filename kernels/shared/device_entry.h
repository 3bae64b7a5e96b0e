// SPDX-License-Identifier: Apache-2.0
// Entries of a device's table (DeviceOps) from functions over the device's own context. kernels::DeviceContext is never
// defined: each device has a type of that name in its own namespace, which only its entries know.
#pragma once

#include <type_traits>

namespace dunlin::kernels {

struct DeviceContext;

template <auto kFunction>
struct DeviceEntry;

template <typename Result, typename Own, typename... Args, Result (*kFunction)(Own*, Args...)>
struct DeviceEntry<kFunction> {
  using Context = std::conditional_t<std::is_const_v<Own>, const DeviceContext, DeviceContext>;
  static Result Call(Context* context, Args... args) { return kFunction(reinterpret_cast<Own*>(context), args...); }
};

// kEntry<cpu::Gemm>: the function as the table takes it.
template <auto kFunction>
inline constexpr auto kEntry = DeviceEntry<kFunction>::Call;

}  // namespace dunlin::kernels
