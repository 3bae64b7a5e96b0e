// The fake CUDA module: the module ABI with the CPU device inside. Its device memory has addresses that no processor
// can dereference, so that whatever treats device memory as host memory faults; every operation translates what it is
// given, and refuses host addresses where device memory belongs. Work is done when it is waited for (fake_stream.h),
// and failures show then.
#pragma once

#include <cstdint>

namespace dunlin::kernels {

// Set in device addresses. Not canonical on x86-64: reading through one is a fault.
inline constexpr uintptr_t kFakeDeviceTag = uintptr_t{1} << 60;

// Environment: the device fails, for good, once this file exists.
inline constexpr char kFakeFailFile[] = "DUNLIN_FAKE_CUDA_FAIL_FILE";
// Environment: every product appends "<rows> <rows that decode> <1 while algorithms are chosen, else 0>" to this file.
inline constexpr char kFakeProductsFile[] = "DUNLIN_FAKE_CUDA_PRODUCTS_FILE";
// Environment: open refuses with this text.
inline constexpr char kFakeOpenError[] = "DUNLIN_FAKE_CUDA_OPEN_ERROR";

// What the fake leaves in a file of algorithms (DeviceOptions::cublas_algorithm_cache), which it has a choice of where
// it is opened with one. Any other text there it ignores, and says so.
inline constexpr char kFakeAlgorithms[] = "the fake's algorithms";

}  // namespace dunlin::kernels
