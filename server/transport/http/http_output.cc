// SPDX-License-Identifier: Apache-2.0
#include "server/transport/http/http_output.h"

#include <boost/beast/http/status.hpp>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace dunlin::server {
namespace {}  // namespace

void HttpOutput::Start(const Framing& framing) {
  framing_ = framing;
  streaming_ = false;
  ended_ = false;
}

void HttpOutput::AppendFields(const HttpReply& reply, Length length) {
  const auto reason = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(reply.status));
  absl::StrAppend(&pending_, "HTTP/1.1 ", reply.status, " ", absl::string_view(reason.data(), reason.size()), "\r\n");
  if (!reply.content_type.empty()) absl::StrAppend(&pending_, "Content-Type: ", reply.content_type, "\r\n");
  for (const HttpHeader& header : reply.headers) {
    absl::StrAppend(&pending_, header.name, ": ", header.value, "\r\n");
  }
  const bool has_length = reply.status != kNoContent && reply.status != kNotModified;
  if (length == Length::kKnown && has_length) {
    absl::StrAppend(&pending_, "Content-Length: ", reply.body.size(), "\r\n");
  }
  if (length == Length::kChunked) pending_.append("Transfer-Encoding: chunked\r\n");
  if (!framing_.keep_alive) {
    pending_.append("Connection: close\r\n");
  } else if (framing_.http10) {
    pending_.append("Connection: keep-alive\r\n");
  }
  pending_.append("\r\n");
}

void HttpOutput::AppendWhole(const HttpReply& reply) {
  AppendFields(reply, Length::kKnown);
  if (!framing_.head_only) pending_.append(reply.body);
  ended_ = true;
}

void HttpOutput::AppendHead(const HttpReply& head) {
  if (framing_.http10) framing_.keep_alive = false;
  AppendFields(head, framing_.http10 ? Length::kToTheEnd : Length::kChunked);
  streaming_ = true;
}

void HttpOutput::AppendPiece(std::string_view bytes) {
  if (framing_.head_only) return;
  if (framing_.http10) {
    pending_.append(bytes);
    return;
  }
  absl::StrAppend(&pending_, absl::Hex(bytes.size()), "\r\n", engine::AbslView(bytes), "\r\n");
}

void HttpOutput::AppendEnd() {
  if (!framing_.http10 && !framing_.head_only) pending_.append("0\r\n\r\n");
  streaming_ = false;
  ended_ = true;
}

void HttpOutput::Drop() {
  pending_.clear();
  streaming_ = false;
  ended_ = true;
}

}  // namespace dunlin::server
