// SPDX-License-Identifier: Apache-2.0
#include "engine/adapters/adapter.h"

namespace dunlin::engine {

Adapter::~Adapter() {
  if (memory_ != nullptr) device_->ops->release(device_->context, memory_, bytes_);
}

}  // namespace dunlin::engine
