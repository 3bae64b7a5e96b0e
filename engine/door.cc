#include "engine/door.h"

namespace dunlin::engine {

absl::Status CheckDoor(Door door) {
  switch (door) {
    case Door::kOpen:
      return absl::OkStatus();
    case Door::kDraining:
      return absl::UnavailableError("the model is draining; no new requests are taken");
    case Door::kFailed:
      return absl::UnavailableError("the device failed; the model serves nothing any more");
    case Door::kStopped:
      return absl::UnavailableError("the model has stopped");
  }
  return absl::OkStatus();
}

}  // namespace dunlin::engine
