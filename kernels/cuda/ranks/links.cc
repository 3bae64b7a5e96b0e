// SPDX-License-Identifier: Apache-2.0
// Source: CUDA runtime API, "Peer Device Memory Access": access is enabled by a device for another, for all of its
// memory, that of later allocations, too; cudaHostAlloc: portable memory is pinned for all devices, and with unified
// addresses each of them maps it where the host does.
#include "kernels/cuda/ranks/links.h"

#include <atomic>
#include <cstring>
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

// Ranks on one device go through the host's memory, too, so that one GPU shows that path; no server has them.
std::string EnablePeers(const LinkedRanks& links) {
  for (int32_t i = 0; i < links.num_ranks; ++i) {
    for (int32_t j = 0; j < links.num_ranks; ++j) {
      if (i == j) continue;
      const int32_t from = links.contexts[i]->device;
      const int32_t to = links.contexts[j]->device;
      std::string reason = from == to ? "CUDA device " + NameOf(from) + " has several ranks" : EnablePeer(from, to);
      if (!reason.empty()) return reason;
    }
  }
  return "";
}

// Zeroed memory that the host and all devices read and write.
void* AllocateMapped(size_t bytes) {
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess) return nullptr;
  std::memset(memory, 0, bytes);
  return memory;
}

bool AllocateRank(const DeviceContext& context, DeviceRank** own) {
  UseDevice(context.device);
  void* memory = nullptr;
  if (cudaMalloc(&memory, sizeof(DeviceRank)) != cudaSuccess) return false;
  *own = static_cast<DeviceRank*>(memory);
  return cudaMemsetAsync(memory, 0, sizeof(DeviceRank), context.stream) == cudaSuccess &&
         cudaStreamSynchronize(context.stream) == cudaSuccess;
}

// Empty, or what there is no memory for.
std::string Allocate(bool by_host, LinkedRanks* links) {
  links->stop = static_cast<uint32_t*>(AllocateMapped(sizeof(uint32_t)));
  if (links->stop == nullptr) return "the host has no pinned memory for the ranks' signals";
  for (int32_t rank = 0; rank < links->num_ranks; ++rank) {
    if (AllocateRank(*links->contexts[rank], &links->own[rank])) continue;
    return "the ranks' devices have no memory for their signals";
  }
  if (!by_host) return "";
  const size_t bytes = static_cast<size_t>(links->num_ranks) * sizeof(HostRank);
  links->host = static_cast<HostRank*>(AllocateMapped(bytes));
  if (links->host != nullptr) return "";
  return "the host has no " + std::to_string(bytes) + " bytes of pinned memory, through which ranks exchange rows";
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
      if (links->own[rank] != nullptr) (void)cudaFree(links->own[rank]);
    }
    if (links->host != nullptr) (void)cudaFreeHost(links->host);
    if (links->stop != nullptr) (void)cudaFreeHost(links->stop);
    (void)cudaGetLastError();
    delete links;
  }
};

}  // namespace

std::string PeersOf(int32_t device) {
  int count = 0;
  std::string peers;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) return "";
  for (int32_t other = 0; other < count; ++other) {
    int can = 0;
    if (other == device || cudaDeviceCanAccessPeer(&can, device, other) != cudaSuccess || can == 0) continue;
    peers += (peers.empty() ? "" : ", ") + std::to_string(other);
  }
  return peers.empty() ? "none" : peers;
}

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
  if (std::string missing = Allocate(!reason->empty(), links.get()); !missing.empty()) {
    *reason = missing + (reason->empty() ? "" : " since " + *reason);
    return nullptr;
  }
  return reinterpret_cast<RankLinks*>(links.release());
}

void UnlinkRanks(RankLinks* links) {
  if (links != nullptr) Unlinker()(reinterpret_cast<LinkedRanks*>(links));
}

void StopRanks(RankLinks* links) {
  Stop(*reinterpret_cast<LinkedRanks*>(links));
}

}  // namespace dunlin::kernels::cuda
