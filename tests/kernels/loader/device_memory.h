// SPDX-License-Identifier: Apache-2.0
// Memory of a module's device, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/api/device.h"
#include "tests/kernels/loader/open_module.h"

namespace dunlin::kernels {

// Device memory initialised with the host's values.
template <typename T>
class Array {
 public:
  Array(Device& device, const std::vector<T>& values) : device_(device), count_(values.size()) {
    memory_ = device.ops->allocate(device.context, bytes());
    EXPECT_NE(memory_, nullptr);
    if (count_ == 0) return;
    EXPECT_EQ(device.ops->copy_to_device(device.context, memory_, values.data(), bytes()), KernelStatus::kOk);
  }
  ~Array() { device_.ops->release(device_.context, memory_, bytes()); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* data() const { return static_cast<T*>(memory_); }
  std::vector<T> Read() const {
    std::vector<T> values(count_);
    if (count_ == 0) return values;
    EXPECT_EQ(device_.ops->copy_to_host(device_.context, values.data(), memory_, bytes()), KernelStatus::kOk);
    EXPECT_EQ(device_.ops->synchronize(device_.context), KernelStatus::kOk);
    return values;
  }

 private:
  size_t bytes() const { return std::max<size_t>(count_, 1) * sizeof(T); }
  Device& device_;
  const size_t count_;
  void* memory_ = nullptr;
};

}  // namespace dunlin::kernels
