// SPDX-License-Identifier: Apache-2.0
//
// Decoder: content codings of answers (gzip, deflate, br, zstd), undone as the bytes come.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "http/message.h"

namespace atl::gateway {

// One body. Its state lives as long as the body does, over all its pieces.
class Decoder {
 public:
  // A body that grows beyond this is given up, whatever it is: it is a bomb or no answer for a program.
  static constexpr std::uint64_t kMaxOutput = std::uint64_t{1} << 32;

  virtual ~Decoder() = default;
  // The next piece; it must stay valid until it is used up.
  virtual void give(std::string_view in) = 0;
  // Decodes into `out`; 0 = the piece is used up, more is needed. kCorrupt when it is not what it should be;
  // kTooLarge beyond kMaxOutput.
  Result<std::size_t> read(std::span<char> out);
  // The body has ended: kCorrupt when the coding has not.
  virtual Result<void> finish() = 0;

 protected:
  virtual Result<std::size_t> decode(std::span<char> out) = 0;

 private:
  std::uint64_t total_ = 0;
};

// What all Content-Encoding fields of an answer say, as one list.
std::string content_coding(const http::Headers& answer);

// `coding` is as of content_coding(). Null for none ("identity" or empty); kUnsupported for a list or
// one that is unknown.
Result<std::unique_ptr<Decoder>> make_decoder(std::string_view coding);

}  // namespace atl::gateway
