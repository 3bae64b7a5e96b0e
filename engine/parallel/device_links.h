// SPDX-License-Identifier: Apache-2.0
// What links the ranks of a model whose devices have memory of their own (kernels/api/rank_links.h). Any thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

class DeviceLinks {
 public:
  // Null where the ranks share their memory, as on the CPU. FAILED_PRECONDITION, with the device's reason, where they
  // cannot be linked at all. The devices outlive the links.
  static absl::StatusOr<std::unique_ptr<DeviceLinks>> Link(const std::vector<kernels::Device*>& ranks);
  ~DeviceLinks() { ops_->unlink_ranks(links_); }
  DeviceLinks(const DeviceLinks&) = delete;
  DeviceLinks& operator=(const DeviceLinks&) = delete;

  kernels::RankLinks* get() const { return links_; }
  // What a log should say: that they go through memory of the host, and why. Empty where they do not.
  const std::string& notice() const { return notice_; }
  // For good: what waits for another rank ends, with rows of no use.
  void Stop() { ops_->stop_ranks(links_); }

 private:
  DeviceLinks(const kernels::DeviceOps* ops, kernels::RankLinks* links, std::string notice)
      : ops_(ops), links_(links), notice_(std::move(notice)) {}

  const kernels::DeviceOps* ops_;
  kernels::RankLinks* links_;
  const std::string notice_;
};

}  // namespace dunlin::engine
