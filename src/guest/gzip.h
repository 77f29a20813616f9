// SPDX-License-Identifier: Apache-2.0
//
// gzip (RFC 1952) as a stream. Pure memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

struct z_stream_s;

namespace atl::guest {

// Feeds on compressed bytes and gives the plain ones. Several members in a row are one stream.
class Inflater {
 public:
  Inflater();
  // Consumes from `input` and fills `out`; gives the bytes written. 0 with input left over cannot happen.
  Result<std::size_t> run(std::string_view& input, std::span<char> out);
  // At a place where the data may end: the last member is complete.
  bool complete() const { return complete_; }

 private:
  struct Free {
    void operator()(z_stream_s* stream) const;
  };
  std::unique_ptr<z_stream_s, Free> stream_;
  bool complete_ = false;
};

// Compresses at the fastest level.
class Deflater {
 public:
  Deflater();
  // Appends to `out` what compressing `input` gives; `last` ends the stream.
  enum class Last : bool { kNo, kYes };
  void run(std::string_view input, Last last, std::string& out);

 private:
  struct Free {
    void operator()(z_stream_s* stream) const;
  };
  std::unique_ptr<z_stream_s, Free> stream_;
};

}  // namespace atl::guest
