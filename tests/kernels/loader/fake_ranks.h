// SPDX-License-Identifier: Apache-2.0
// The fake device's linked ranks: the columns are stored and the meeting is waited for when the rank's stream comes to
// the operation, so that ranks whose work nobody waits for hold up the others, as on devices. Without peers the CUDA
// device's own code moves them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/api/device.h"
#include "kernels/cuda/ranks/stage_columns.h"
#include "tests/kernels/loader/fake_context.h"
#include "tests/kernels/loader/fake_translation.h"

namespace dunlin::kernels {

// Floats of a rank's columns that the host's memory holds: few, so that rows go in several pieces.
inline constexpr int64_t kFakeStageFloats = 8192;

// Of one rank whose columns go through memory of the host.
struct FakeHostRank {
  cuda::RankCounts counts{};
  cuda::RankSignals signals{};
  cuda::StagedNote notes[2] = {};
  std::vector<float> columns[2] = {std::vector<float>(kFakeStageFloats), std::vector<float>(kFakeStageFloats)};
  cuda::StagedNote taken[kMaxLinkedRanks] = {};
};

struct FakeLinks {
  std::mutex mutex;  // guards what follows, up to `stopped`
  std::condition_variable changed;
  int32_t num_ranks = 0;
  int32_t num_arrived = 0;
  uint64_t meetings = 0;
  bool stopped = false;
  std::vector<FakeHostRank> host;  // by rank; empty: ranks write each other's memory
  uint32_t stop = 0;               // that these look at

  void Meet() {
    std::unique_lock<std::mutex> lock(mutex);
    const uint64_t meeting = meetings;
    if (++num_arrived == num_ranks) {
      num_arrived = 0;
      ++meetings;
      changed.notify_all();
      return;
    }
    changed.wait(lock, [&] { return stopped || meetings != meeting; });
  }
};

// The host's memory as the CUDA device's kernel sees it (kernels/cuda/ranks/stage_columns.h).
struct FakeHostMemory {
  template <typename T>
  void Store(T* to, const T& value) const {
    *to = value;
  }
  template <typename T>
  void StoreHere(T* to, const T& value) const {
    *to = value;
  }
  template <typename T>
  T Load(const T* from) const {
    return *from;
  }
  uint32_t CountBlock(uint32_t* counter) const { return std::atomic_ref(*counter).fetch_add(1); }
  void Publish(uint32_t* to, uint32_t value) const { std::atomic_ref(*to).store(value, std::memory_order_release); }
  uint32_t Acquire(const uint32_t* from) const {
    if (++num_looks > kYields) std::this_thread::sleep_for(std::chrono::microseconds(20));
    std::this_thread::yield();
    return Look(from);
  }
  uint32_t Look(const uint32_t* from) const {
    return std::atomic_ref(*const_cast<uint32_t*>(from)).load(std::memory_order_acquire);
  }

  static constexpr int kYields = 8;  // of a launch, before it leaves the processor to others
  mutable int num_looks = 0;
};

inline FakeLinks& Of(RankLinks* links) {
  return *reinterpret_cast<FakeLinks*>(links);
}

inline RankLinks* LinkRanks(DeviceContext* const* /*ranks*/, int32_t num_ranks, std::string* reason) {
  if (const char* refusal = std::getenv(kFakeLinkError); refusal != nullptr) {
    *reason = refusal;
    return nullptr;
  }
  if (num_ranks < 2 || num_ranks > kMaxLinkedRanks) {
    *reason = std::to_string(num_ranks) + " ranks; the fake links 2 to " + std::to_string(kMaxLinkedRanks);
    return nullptr;
  }
  auto links = std::make_unique<FakeLinks>();
  links->num_ranks = num_ranks;
  const char* no_peers = std::getenv(kFakeNoPeers);
  if (no_peers != nullptr) links->host.resize(static_cast<size_t>(num_ranks));
  *reason = no_peers == nullptr ? "" : no_peers;
  return reinterpret_cast<RankLinks*>(links.release());
}

inline void UnlinkRanks(RankLinks* links) {
  delete reinterpret_cast<FakeLinks*>(links);
}

inline void StopRanks(RankLinks* links) {
  const std::lock_guard<std::mutex> lock(Of(links).mutex);
  Of(links).stopped = true;
  std::atomic_ref(Of(links).stop).store(1);
  Of(links).changed.notify_all();
}

// On translated parameters.
inline void StoreColumns(const ShareColumnsParams& p) {
  for (int32_t row = 0; row < p.num_rows; ++row) {
    if (p.ids != nullptr && (p.ids[row] < p.first_id || p.ids[row] >= p.first_id + p.num_ids)) continue;
    for (int32_t block = 0; block < p.num_blocks; ++block) {
      const float* from = p.in + row * p.in_stride + block * p.in_block_stride;
      for (float* out : p.out) {
        if (out == nullptr || out == p.in) continue;
        std::memcpy(out + row * p.out_stride + block * p.out_block_stride, from,
                    static_cast<size_t>(p.columns) * sizeof(float));
      }
    }
  }
}

// As a device gathers where ranks are linked: row by row, since the CPU refuses a call with an id that the weight has
// no row of.
inline KernelStatus GatherKnownRows(DeviceContext* context, const GatherRowsParams& params) {
  KernelStatus status = KernelStatus::kOk;
  const int64_t columns = params.weight->in_features;
  for (int32_t row = 0; row < params.num_rows && status == KernelStatus::kOk; ++row) {
    GatherRowsParams one = params;
    one.ids = params.ids + row;
    one.out = params.out + row * columns;
    one.num_rows = 1;
    if (*one.ids >= 0 && *one.ids < params.weight->out_features) {
      status = Cpu().ops->gather_rows(context, one);
    } else if (!params.accumulate) {
      std::fill_n(one.out, columns, 0.0F);
    }
  }
  return status;
}

// On translated parameters: the launches of the CUDA device's kernel, of one thread each.
inline void ShareByHost(const ShareColumnsParams& params, FakeStream* stream) {
  FakeLinks& links = Of(params.links);
  cuda::ForEachStage(params, links.num_ranks, kFakeStageFloats, [&](cuda::StageCall& call, int32_t /*rows*/) {
    for (int32_t rank = 0; rank < links.num_ranks; ++rank) {
      FakeHostRank& host = links.host[static_cast<size_t>(rank)];
      call.share.signals[rank] = &host.signals;
      for (int turn = 0; turn < 2; ++turn) call.stages[rank][turn] = {&host.notes[turn], host.columns[turn].data()};
    }
    FakeHostRank& own = links.host[static_cast<size_t>(params.rank)];
    call.share.counts = &own.counts;
    call.share.stop = &links.stop;
    call.taken = own.taken;
    stream->Add([call] {
      cuda::StageBlock(cuda::SingleLane(), FakeHostMemory(), call, 0, 1);
      return KernelStatus::kOk;
    });
  });
}

inline KernelStatus ShareColumns(DeviceContext* context, const ShareColumnsParams& params) {
  if (Of(context).failed) return KernelStatus::kDeviceError;
  ShareColumnsParams translated = params;
  Translation to_host;
  to_host(&translated.in, &translated.ids);
  for (float*& out : translated.out) to_host(&out);
  if (!to_host.valid()) return KernelStatus::kInvalidArgument;
  if (!Of(params.links).host.empty()) {
    if (!cuda::FitsStage(translated, kFakeStageFloats)) return KernelStatus::kInvalidArgument;
    ShareByHost(translated, &Of(context).stream);
    return KernelStatus::kOk;
  }
  Of(context).stream.Add([translated] {
    StoreColumns(translated);
    Of(translated.links).Meet();
    return KernelStatus::kOk;
  });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels
