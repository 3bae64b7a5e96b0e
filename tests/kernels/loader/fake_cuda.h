// SPDX-License-Identifier: Apache-2.0
// The fake CUDA module: the module ABI over the CPU device. Its device memory has addresses that no processor can
// dereference, so code that treats device memory as host memory faults; every operation translates its pointers and
// refuses host addresses where device memory is required. Work runs when it is waited for (fake_stream.h), and failures
// surface then.
#pragma once

#include <cstdint>

namespace dunlin::kernels {

// Set in device addresses. It makes them non-canonical, so that dereferencing one faults; aarch64 ignores the top byte.
#if defined(__aarch64__)
inline constexpr uintptr_t kFakeDeviceTag = uintptr_t{1} << 54;
#else
inline constexpr uintptr_t kFakeDeviceTag = uintptr_t{1} << 60;
#endif

// Environment variable: the device fails permanently once this file exists.
inline constexpr char kFakeFailFile[] = "DUNLIN_FAKE_CUDA_FAIL_FILE";
// Environment variable: waiting for work hangs for as long as this file exists.
inline constexpr char kFakeHangFile[] = "DUNLIN_FAKE_CUDA_HANG_FILE";
// Environment variable: every GEMM appends "<rows> <decode rows> <1 while tuning, else 0>" to this file.
inline constexpr char kFakeProductsFile[] = "DUNLIN_FAKE_CUDA_PRODUCTS_FILE";
// Environment variable: every launch of a graph appends the number of its operations to this file.
inline constexpr char kFakeGraphsFile[] = "DUNLIN_FAKE_CUDA_GRAPHS_FILE";
// Environment variable: no graph can be made of what is recorded.
inline constexpr char kFakeRefusesGraphs[] = "DUNLIN_FAKE_CUDA_REFUSES_GRAPHS";
// Environment variable: graphs lack the operation of this number, counted from 0.
inline constexpr char kFakeGraphsLack[] = "DUNLIN_FAKE_CUDA_GRAPHS_LACK";
// Environment variable: GEMMs and attention return kOk and write nothing.
inline constexpr char kFakeIdle[] = "DUNLIN_FAKE_CUDA_IDLE";
// Environment variable: bytes of device memory; allocations beyond them return null.
inline constexpr char kFakeMemoryBytes[] = "DUNLIN_FAKE_CUDA_MEMORY_BYTES";
// Environment variable: ranks are not linked, for this reason.
inline constexpr char kFakeLinkError[] = "DUNLIN_FAKE_CUDA_LINK_ERROR";
// Environment variable: ranks go through memory of the host, for this reason.
inline constexpr char kFakeNoPeers[] = "DUNLIN_FAKE_CUDA_NO_PEERS";
// Environment variable: open refuses with this text.
inline constexpr char kFakeOpenError[] = "DUNLIN_FAKE_CUDA_OPEN_ERROR";

inline constexpr int32_t kFakeDevices = 4;  // that a process sees

// What the fake writes to DeviceOptions::cublas_algorithm_cache; with such a file it has something to tune. Any other
// content is ignored, with a notice.
inline constexpr char kFakeAlgorithms[] = "the fake's algorithms";

}  // namespace dunlin::kernels
