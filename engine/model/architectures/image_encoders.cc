// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/image_encoders.h"

#include <algorithm>

namespace dunlin::engine {

extern const ImageEncoderForm kPixtral;
extern const ImageEncoderForm kQwenVision;

namespace {

constexpr const ImageEncoderForm* kForms[] = {&kPixtral, &kQwenVision};

}  // namespace

std::span<const ImageEncoderForm* const> ImageEncoderForms() {
  return kForms;
}

const ImageEncoderForm* FindImageEncoder(const std::string& outer_type) {
  for (const ImageEncoderForm* form : kForms) {
    const auto& types = form->outer_types;
    if (std::find(types.begin(), types.end(), outer_type) != types.end()) return form;
  }
  return nullptr;
}

}  // namespace dunlin::engine
