// SPDX-License-Identifier: Apache-2.0
// The fake device's linked ranks: the columns are stored and the meeting is waited for when the rank's stream comes to
// the operation, so that ranks whose work nobody waits for hold up the others, as on devices.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/api/device.h"
#include "tests/kernels/loader/fake_context.h"
#include "tests/kernels/loader/fake_translation.h"

namespace dunlin::kernels {

struct FakeLinks {
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  int32_t num_ranks = 0;
  int32_t num_arrived = 0;
  uint64_t meetings = 0;
  bool stopped = false;

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
  return reinterpret_cast<RankLinks*>(links.release());
}

inline void UnlinkRanks(RankLinks* links) {
  delete reinterpret_cast<FakeLinks*>(links);
}

inline void StopRanks(RankLinks* links) {
  const std::lock_guard<std::mutex> lock(Of(links).mutex);
  Of(links).stopped = true;
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

inline KernelStatus ShareColumns(DeviceContext* context, const ShareColumnsParams& params) {
  if (Of(context).failed) return KernelStatus::kDeviceError;
  ShareColumnsParams translated = params;
  Translation to_host;
  to_host(&translated.in, &translated.ids);
  for (float*& out : translated.out) to_host(&out);
  if (!to_host.valid()) return KernelStatus::kInvalidArgument;
  Of(context).stream.Add([translated] {
    StoreColumns(translated);
    Of(translated.links).Meet();
    return KernelStatus::kOk;
  });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels
