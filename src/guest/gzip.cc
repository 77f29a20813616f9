// SPDX-License-Identifier: Apache-2.0
#include "guest/gzip.h"

#include <zlib.h>

#include "base/check.h"

namespace atl::guest {
namespace {

constexpr int kGzipWindow = 16 + MAX_WBITS;  // zlib: 16 asks for the gzip wrapper
constexpr std::size_t kDeflateStep = 64 * 1024;

Bytef* bytes(const char* data) { return reinterpret_cast<Bytef*>(const_cast<char*>(data)); }

}  // namespace

void Inflater::Free::operator()(z_stream_s* stream) const {
  inflateEnd(stream);
  delete stream;
}

Inflater::Inflater() : stream_(new z_stream{}) {
  CHECK(inflateInit2(stream_.get(), kGzipWindow) == Z_OK, "inflateInit2 failed: out of memory");
}

Result<std::size_t> Inflater::run(std::string_view& input, std::span<char> out) {
  z_stream& stream = *stream_;
  stream.next_out = bytes(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  while (stream.avail_out > 0 && !input.empty()) {
    if (complete_) {
      inflateReset(&stream);
      complete_ = false;
    }
    stream.next_in = bytes(input.data());
    stream.avail_in = static_cast<uInt>(input.size());
    int code = inflate(&stream, Z_NO_FLUSH);
    input.remove_prefix(input.size() - stream.avail_in);
    if (code == Z_STREAM_END)
      complete_ = true;
    else if (code == Z_BUF_ERROR)
      break;
    else if (code != Z_OK)
      return make_error(Code::kInvalid, "the body is not valid gzip: {}",
                        stream.msg != nullptr ? stream.msg : "bad data");
  }
  return out.size() - stream.avail_out;
}

void Deflater::Free::operator()(z_stream_s* stream) const {
  deflateEnd(stream);
  delete stream;
}

Deflater::Deflater() : stream_(new z_stream{}) {
  int code = deflateInit2(stream_.get(), Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, MAX_MEM_LEVEL - 1,
                          Z_DEFAULT_STRATEGY);
  CHECK(code == Z_OK, "deflateInit2 failed: out of memory");
}

void Deflater::run(std::string_view input, Last last, std::string& out) {
  z_stream& stream = *stream_;
  stream.next_in = bytes(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  do {
    std::size_t used = out.size();
    out.resize(used + kDeflateStep);
    stream.next_out = bytes(out.data() + used);
    stream.avail_out = static_cast<uInt>(kDeflateStep);
    deflate(&stream, last == Last::kYes ? Z_FINISH : Z_NO_FLUSH);
    out.resize(used + kDeflateStep - stream.avail_out);
  } while (stream.avail_out == 0);
}

}  // namespace atl::guest
