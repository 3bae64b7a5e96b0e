// SPDX-License-Identifier: Apache-2.0
// The images of a request on their way to become rows of its prompt: one after another they are decoded and go through
// the model's image encoder, unless its store still has their rows.
// Thread rule: Advance and Cancel from one thread at a time; the encoder's engine thread gives results.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/encoder/encode_call.h"
#include "engine/request/prompt_rows.h"
#include "engine/request/types.h"
#include "server/access/limits.h"
#include "server/models/image_store.h"
#include "server/serving/images/chat_images.h"
#include "server/serving/record/client_field.h"

namespace dunlin::server {

class PendingImages final : public engine::EncodeSink, public std::enable_shared_from_this<PendingImages> {
 public:
  struct Caller {
    engine::TenantId tenant = engine::kSharedTenant;
    engine::TimeNs arrival = 0;
    engine::TimeNs deadline = engine::kNoDeadline;
    const FieldNames* names = &kPlainFieldNames;
    const Limits* limits = nullptr;
    std::function<void()> on_progress;  // Advance may go on; any thread, also before Start returns
  };

  // images: PlaceImages'; their row tokens are set in *prompt. input outlives the result until Cancel, or Advance has a
  // result. INVALID_ARGUMENT: their rows take more than models[].images.memory_bytes.
  static absl::StatusOr<std::shared_ptr<PendingImages>> Start(ImageInput* input, std::vector<PromptImage> images,
                                                              std::string_view salt,
                                                              std::vector<engine::TokenId>* prompt, Caller caller);

  // Goes on as far as it can: may decode an image, some 10 ms a megapixel. nullopt: not yet. The rows' memory is given
  // back with them. Errors: INVALID_ARGUMENT (a file that cannot be decoded); those of Engine::Submit and StatusOf.
  std::optional<absl::StatusOr<std::shared_ptr<const engine::PromptRows>>> Advance();

  // Instead of a further Advance. The turn ends once the encoder has let go of the image.
  void Cancel();

 private:
  struct Image {
    PromptImage prompt;
    engine::Digest digest;
    ImageRows rows;  // once they are known
  };
  struct Held;

  PendingImages(ImageInput* input, Caller caller) : input_(input), caller_(std::move(caller)) {}
  void OnFinish(std::unique_ptr<engine::EncodeCall> call) override;
  absl::Status Submit(const Image& image);
  // False: the encoder has not finished.
  absl::StatusOr<bool> Collect();
  // Those of an image that the store has, or of an equal one before.
  ImageRows KnownRows(const Image& image) const;
  void Append(ImageRows rows);

  ImageInput* const input_;
  const Caller caller_;
  std::vector<Image> images_;
  size_t num_values_ = 0;  // of all rows
  size_t next_ = 0;
  bool running_ = false;  // images_[next_] is in the encoder
  std::unique_ptr<ImageStore::Stay> stay_;
  std::shared_ptr<Held> held_;  // rows of the images before
  engine::RequestId id_ = 0;
  absl::Mutex mutex_;  // guards what follows
  std::unique_ptr<engine::EncodeCall> finished_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;  // then what the encoder gives ends the stay
};

}  // namespace dunlin::server
