// SPDX-License-Identifier: Apache-2.0
// Source: CUDA runtime API, "Peer Device Memory Access": access is enabled by a device for another, for all of its
// memory, that of later allocations, too.
#include "kernels/cuda/ranks/links.h"

#include <atomic>
#include <memory>

#include "kernels/cuda/device/use_device.h"

namespace dunlin::kernels::cuda {
namespace {

std::string NameOf(int32_t device) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return std::to_string(device);
  return std::to_string(device) + " (" + properties.name + ")";
}

// Lets `from` write the memory of `to`; empty, or why not.
std::string EnablePeer(int32_t from, int32_t to) {
  int can = 0;
  const cudaError_t asked = cudaDeviceCanAccessPeer(&can, from, to);
  if (asked == cudaSuccess && can == 0) {
    return "CUDA devices " + NameOf(from) + " and " + NameOf(to) +
           " cannot access each other's memory (`nvidia-smi topo -p2p rw` shows which can)";
  }
  UseDevice(from);
  const cudaError_t result = asked == cudaSuccess ? cudaDeviceEnablePeerAccess(to, 0) : asked;
  if (result == cudaErrorPeerAccessAlreadyEnabled) (void)cudaGetLastError();
  if (result == cudaSuccess || result == cudaErrorPeerAccessAlreadyEnabled) return "";
  (void)cudaGetLastError();
  return "CUDA device " + NameOf(from) + " cannot be given access to the memory of device " + NameOf(to) + ": " +
         cudaGetErrorString(result);
}

std::string EnablePeers(const LinkedRanks& links) {
  for (int32_t i = 0; i < links.num_ranks; ++i) {
    for (int32_t j = 0; j < links.num_ranks; ++j) {
      const int32_t from = links.contexts[i]->device;
      const int32_t to = links.contexts[j]->device;
      if (from == to) continue;
      if (std::string reason = EnablePeer(from, to); !reason.empty()) return reason;
    }
  }
  return "";
}

bool AllocateSignals(LinkedRanks* links) {
  const unsigned flags = cudaHostAllocMapped | cudaHostAllocPortable;
  if (cudaHostAlloc(reinterpret_cast<void**>(&links->stop), sizeof(uint32_t), flags) != cudaSuccess) return false;
  *links->stop = 0;
  for (int32_t rank = 0; rank < links->num_ranks; ++rank) {
    UseDevice(links->contexts[rank]->device);
    void* memory = nullptr;
    if (cudaMalloc(&memory, sizeof(RankSignals)) != cudaSuccess) return false;
    links->signals[rank] = static_cast<RankSignals*>(memory);
    const cudaStream_t stream = links->contexts[rank]->stream;
    if (cudaMemsetAsync(memory, 0, sizeof(RankSignals), stream) != cudaSuccess) return false;
    if (cudaStreamSynchronize(stream) != cudaSuccess) return false;
  }
  return true;
}

void Stop(const LinkedRanks& links) {
  if (links.stop != nullptr) std::atomic_ref(*links.stop).store(1, std::memory_order_release);
}

struct Unlinker {
  void operator()(LinkedRanks* links) const {
    Stop(*links);
    for (int32_t rank = 0; rank < links->num_ranks; ++rank) {
      DeviceContext* context = links->contexts[rank];
      UseDevice(context->device);
      if (!context->failed) (void)cudaStreamSynchronize(context->stream);
      if (links->signals[rank] != nullptr) (void)cudaFree(links->signals[rank]);
    }
    if (links->stop != nullptr) (void)cudaFreeHost(links->stop);
    (void)cudaGetLastError();
    delete links;
  }
};

}  // namespace

RankLinks* LinkRanks(kernels::DeviceContext* const* ranks, int32_t num_ranks, std::string* reason) {
  if (num_ranks < 2 || num_ranks > kMaxLinkedRanks) {
    *reason = std::to_string(num_ranks) + " ranks; CUDA links 2 to " + std::to_string(kMaxLinkedRanks);
    return nullptr;
  }
  std::unique_ptr<LinkedRanks, Unlinker> links(new LinkedRanks());
  links->num_ranks = num_ranks;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    links->contexts[rank] = reinterpret_cast<DeviceContext*>(ranks[rank]);
  }
  *reason = EnablePeers(*links);
  if (reason->empty() && !AllocateSignals(links.get())) *reason = "the ranks' devices have no memory for their signals";
  return reason->empty() ? reinterpret_cast<RankLinks*>(links.release()) : nullptr;
}

void UnlinkRanks(RankLinks* links) {
  if (links != nullptr) Unlinker()(reinterpret_cast<LinkedRanks*>(links));
}

void StopRanks(RankLinks* links) {
  Stop(*reinterpret_cast<LinkedRanks*>(links));
}

}  // namespace dunlin::kernels::cuda
