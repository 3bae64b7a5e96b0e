// SPDX-License-Identifier: Apache-2.0
// Translation of the fake device's addresses.
#pragma once

#include <cstdint>

#include "tests/kernels/loader/fake_cuda.h"

namespace dunlin::kernels {

// Device addresses to host addresses.
class Translation {
 public:
  template <typename... T>
  void operator()(T**... pointers) {
    (Translate(pointers), ...);
  }
  bool valid() const { return valid_; }

 private:
  template <typename T>
  void Translate(T** pointer) {
    if (*pointer == nullptr) return;
    const auto address = reinterpret_cast<uintptr_t>(*pointer);
    if ((address & kFakeDeviceTag) == 0) {
      valid_ = false;
      return;
    }
    *pointer = reinterpret_cast<T*>(address & ~kFakeDeviceTag);
  }

  bool valid_ = true;
};

// The host address behind a device address, or null.
inline const void* HostAddress(const void* device) {
  Translation to_host;
  to_host(&device);
  return to_host.valid() ? device : nullptr;
}

}  // namespace dunlin::kernels
