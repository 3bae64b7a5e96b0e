// SPDX-License-Identifier: Apache-2.0
// Forwards to several observers, in order: the log, the metrics, the spans.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/serving/record/request_record.h"

namespace dunlin::server {

class ObserverList : public RequestObserver {
 public:
  // They outlive this object; those that are null are left out.
  explicit ObserverList(const std::vector<RequestObserver*>& observers) {
    for (RequestObserver* observer : observers) {
      if (observer != nullptr) observers_.push_back(observer);
    }
  }
  void OnTokenInterval(const std::string& model, const engine::ExecutionProfile& profile,
                       engine::TimeNs interval) override {
    for (RequestObserver* observer : observers_) observer->OnTokenInterval(model, profile, interval);
  }
  void OnFinished(const RequestRecord& record) override {
    for (RequestObserver* observer : observers_) observer->OnFinished(record);
  }
  void OnIgnored(std::string_view route, const IgnoredNames& names) override {
    for (RequestObserver* observer : observers_) observer->OnIgnored(route, names);
  }

 private:
  std::vector<RequestObserver*> observers_;  // const after construction
};

}  // namespace dunlin::server
