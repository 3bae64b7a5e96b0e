// SPDX-License-Identifier: Apache-2.0
// A body for Beast's parser that takes memory as bytes come, and not more than the length that was announced: the
// library's own string_body reserves that length with the header. Meets Beast's Body requirements for parsing.
#pragma once

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/optional/optional.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

namespace dunlin::server {

struct GrowingBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool kIsRequest, class Fields>
    reader(boost::beast::http::header<kIsRequest, Fields>& /*head*/, std::string& body) : body_(body) {}

    void init(const boost::optional<uint64_t>& length, boost::beast::error_code& error) {
      length_ = static_cast<size_t>(std::min<uint64_t>(length.value_or(body_.max_size()), body_.max_size()));
      error = {};
    }

    template <class Buffers>
    size_t put(const Buffers& buffers, boost::beast::error_code& error) {
      const size_t size = body_.size() + boost::asio::buffer_size(buffers);
      // Doubled, so that a long body is copied few times.
      if (size > body_.capacity()) body_.reserve(std::max(size, std::min(2 * body_.capacity(), length_)));
      const size_t before = body_.size();
      for (const auto piece : boost::beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(piece.data()), piece.size());
      }
      error = {};
      return body_.size() - before;
    }

    void finish(boost::beast::error_code& error) { error = {}; }

   private:
    std::string& body_;
    size_t length_ = 0;  // that was announced
  };
};

}  // namespace dunlin::server
