// SPDX-License-Identifier: Apache-2.0
#include "text/text_worker.h"

#include "text/abi.h"

namespace dunlin::text {

TextWorker::TextWorker() {
  dunlin_text_worker_new(&handle_, nullptr);
}

TextWorker::~TextWorker() {
  dunlin_text_worker_free(handle_);
}

absl::StatusOr<std::string> TextWorker::Handle(std::string_view request) {
  text_abi::Bytes reply;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_worker_handle(handle_, text_abi::Data(request), request.size(), reply.out(), &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return reply.Take();
}

void TextWorker::Clear() {
  dunlin_text_worker_clear(handle_);
}

}  // namespace dunlin::text
