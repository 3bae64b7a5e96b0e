// SPDX-License-Identifier: Apache-2.0
#include "server/serving/images/pending_images.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/serving/record/errors.h"
#include "text/images/image.h"

namespace dunlin::server {

using C = ClientField;

struct PendingImages::Held {
  std::unique_ptr<ImageStore::Stay> stay;
  engine::PromptRows rows;
};

absl::StatusOr<std::shared_ptr<PendingImages>> PendingImages::Start(ImageInput* input, std::vector<PromptImage> images,
                                                                    std::string_view salt,
                                                                    std::vector<engine::TokenId>* prompt,
                                                                    Caller caller) {
  const std::shared_ptr<PendingImages> pending(new PendingImages(input, std::move(caller)));
  auto held = std::make_shared<Held>();
  held->rows.columns = input->columns;
  int64_t num_rows = 0;
  for (PromptImage& image : images) {
    const engine::Digest digest = DigestOf(*input, salt, image);
    AppendSpans(*input, image, &held->rows.spans);
    SetRowTokens(input, image, digest, prompt);
    num_rows += NumRows(*input, image);
    // Room for this request may be made of what it needs.
    pending->images_.push_back({std::move(image), digest, input->store.Find(digest)});
  }
  pending->num_values_ = static_cast<size_t>(num_rows) * static_cast<size_t>(input->columns);
  const size_t bytes = pending->num_values_ * sizeof(float);
  if (bytes > input->store.max_bytes()) {
    return InvalidField(
        engine::Violation::Of(C::kChatImages, absl::StrCat("have images that become ", bytes, " bytes of rows"),
                              absl::StrCat(input->store.max_bytes(), " (models[].images.memory_bytes)")),
        *pending->caller_.names);
  }
  pending->held_ = std::move(held);
  // Called while the stay lives, which the pending images own.
  pending->stay_ = input->store.Enter(pending->caller_.tenant, bytes, pending->caller_.on_progress);
  return pending;
}

std::optional<absl::StatusOr<std::shared_ptr<const engine::PromptRows>>> PendingImages::Advance() {
  if (!stay_->entered()) return std::nullopt;
  if (next_ == 0) held_->rows.values.reserve(num_values_);
  while (next_ < images_.size()) {
    const Image& image = images_[next_];
    if (running_) {
      const absl::StatusOr<bool> collected = Collect();
      if (!collected.ok()) return collected.status();
      if (!*collected) return std::nullopt;
    } else if (ImageRows rows = KnownRows(image); rows != nullptr) {
      Append(std::move(rows));
    } else {
      if (absl::Status s = Submit(image); !s.ok()) return s;
      running_ = true;
    }
  }
  stay_->EndTurn();
  held_->stay = std::move(stay_);
  const engine::PromptRows* rows = &held_->rows;
  return std::shared_ptr<const engine::PromptRows>(std::move(held_), rows);
}

// The engine may keep its sink for a while after OnFinish.
void PendingImages::Cancel() {
  std::unique_ptr<ImageStore::Stay> stay;  // ended without the lock
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (running_ && finished_ == nullptr) return input_->encoder->Cancel(id_, engine::FinishReason::kCancelled);
  stay = std::move(stay_);
}

void PendingImages::OnFinish(std::unique_ptr<engine::EncodeCall> call) {
  std::unique_ptr<ImageStore::Stay> stay;
  {
    absl::MutexLock lock(&mutex_);
    finished_ = std::move(call);
    if (cancelled_) stay = std::move(stay_);
  }
  stay.reset();
  caller_.on_progress();
}

absl::Status PendingImages::Submit(const Image& image) {
  const absl::StatusOr<text::Image> decoded = text::DecodeImage(*image.prompt.file, {.max_pixels = input_->max_pixels});
  if (!decoded.ok()) return RefusedByText(decoded.status(), C::kChatPartImage, image.prompt.part, *caller_.names);
  absl::StatusOr<text::ImagePatches> patches = text::MakePatches(input_->processor, *decoded);
  if (!patches.ok()) return RefusedByText(patches.status(), C::kChatPartImage, image.prompt.part, *caller_.names);
  auto call = std::make_unique<engine::EncodeCall>();
  engine::EncodeRequest& request = call->request;
  request.patches = std::move(patches->values);
  request.grids = {{patches->grid.rows, patches->grid.columns}};
  request.lengths = {patches->grid.rows * patches->grid.columns};
  request.dimensions = input_->columns;
  request.profile = input_->profile;
  request.tenant = caller_.tenant;
  request.arrival = caller_.arrival;
  request.deadline = caller_.deadline;
  call->vectors.resize(static_cast<size_t>(NumRows(*input_, image.prompt)) * static_cast<size_t>(input_->columns));
  if (const absl::Status s = input_->encoder->Validate(request); !s.ok()) {
    return MakeError(Reason::kInternal, engine::StdView(s.message()));
  }
  const absl::StatusOr<engine::RequestId> id = input_->encoder->Submit(std::move(call), shared_from_this());
  if (!id.ok()) return SubmitRefused(id.status(), caller_.limits->retry_after_ms);
  id_ = *id;
  return absl::OkStatus();
}

absl::StatusOr<bool> PendingImages::Collect() {
  std::unique_ptr<engine::EncodeCall> call;
  {
    absl::MutexLock lock(&mutex_);
    call = std::move(finished_);
  }
  if (call == nullptr) return false;
  running_ = false;
  if (call->reason == engine::FinishReason::kDeadline && call->first_scheduled == 0 &&
      call->finished < caller_.deadline) {
    return NotBegunForDeadline(caller_.limits->retry_after_ms);
  }
  if (absl::Status status = StatusOf(call->reason, *caller_.limits); !status.ok()) return status;
  auto rows = std::make_shared<const std::vector<float>>(std::move(call->vectors));
  input_->store.Keep(images_[next_].digest, rows);
  Append(std::move(rows));
  return true;
}

ImageRows PendingImages::KnownRows(const Image& image) const {
  if (image.rows != nullptr) return image.rows;
  for (size_t i = 0; i < next_; ++i) {
    if (images_[i].digest == image.digest) return images_[i].rows;
  }
  return nullptr;
}

void PendingImages::Append(ImageRows rows) {
  held_->rows.values.insert(held_->rows.values.end(), rows->begin(), rows->end());
  images_[next_++].rows = std::move(rows);
}

}  // namespace dunlin::server
