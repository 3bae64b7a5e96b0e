// SPDX-License-Identifier: Apache-2.0
// Forwards to two observers: the log and the metrics.
#pragma once

#include <string>

#include "server/serving/request_record.h"

namespace dunlin::server {

class ObserverPair : public RequestObserver {
 public:
  // Both outlive this object.
  ObserverPair(RequestObserver* first, RequestObserver* second) : first_(first), second_(second) {}
  void OnTokenInterval(const std::string& model, engine::TimeNs interval) override {
    first_->OnTokenInterval(model, interval);
    second_->OnTokenInterval(model, interval);
  }
  void OnFinished(const RequestRecord& record) override {
    first_->OnFinished(record);
    second_->OnFinished(record);
  }

 private:
  RequestObserver* const first_;
  RequestObserver* const second_;
};

}  // namespace dunlin::server
