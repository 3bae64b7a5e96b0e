// SPDX-License-Identifier: Apache-2.0
#include "engine/loop/accept_state.h"

namespace dunlin::engine {

absl::Status CheckAccepting(AcceptState state) {
  switch (state) {
    case AcceptState::kAccepting:
      return absl::OkStatus();
    case AcceptState::kDraining:
      return absl::UnavailableError("the model is draining; no new requests are taken");
    case AcceptState::kFailed:
      return absl::InternalError("the device failed; the model serves nothing any more");
    case AcceptState::kStopped:
      return absl::UnavailableError("the model has stopped");
  }
  return absl::OkStatus();
}

}  // namespace dunlin::engine
