// SPDX-License-Identifier: Apache-2.0
//
// Makes tar archives byte by byte, so that tests can write what no honest tar would.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

namespace atl::templates {

class TarBuilder {
 public:
  struct Header {
    std::string name;
    char type =
        '0';  // of ustar: '0' file, '1' hard link, '2' symbolic link, '3' '4' devices, '5' folder, '6' FIFO
    std::string link;
    std::uint64_t size = 0;
    unsigned mode = 0644;
    unsigned uid = 0;
  };

  TarBuilder& raw(const Header& header) {
    char block[512] = {};
    std::memcpy(block, header.name.data(), std::min<std::size_t>(header.name.size(), 100));
    octal(block + 100, 8, header.mode);
    octal(block + 108, 8, header.uid);
    octal(block + 116, 8, 0);
    octal(block + 124, 12, header.size);
    octal(block + 136, 12, 1'700'000'000);
    block[156] = header.type;
    std::memcpy(block + 157, header.link.data(), std::min<std::size_t>(header.link.size(), 100));
    std::memcpy(block + 257, "ustar\00000", 8);
    octal(block + 329, 8, 1);
    octal(block + 337, 8, 3);
    std::memset(block + 148, ' ', 8);
    unsigned sum = 0;
    for (unsigned char byte : block) sum += byte;
    std::snprintf(block + 148, 8, "%06o", sum);
    bytes_.append(block, sizeof block);
    return *this;
  }
  TarBuilder& data(std::string_view text) {
    bytes_ += text;
    bytes_.append((512 - text.size() % 512) % 512, '\0');
    return *this;
  }
  TarBuilder& file(const std::string& name, std::string_view text, unsigned mode = 0644) {
    return raw({.name = name, .size = text.size(), .mode = mode}).data(text);
  }
  TarBuilder& folder(const std::string& name) { return raw({.name = name, .type = '5', .mode = 0755}); }
  TarBuilder& symlink(const std::string& name, const std::string& to) {
    return raw({.name = name, .type = '2', .link = to});
  }
  TarBuilder& hardlink(const std::string& name, const std::string& to) {
    return raw({.name = name, .type = '1', .link = to});
  }
  // A pax record for the next entry, with its own length in front as the format wants it.
  TarBuilder& pax(const std::string& key, const std::string& value) {
    std::string body = " " + key + "=" + value + "\n";
    std::size_t size = body.size() + 1;
    while (std::to_string(size).size() + body.size() != size) ++size;
    std::string record = std::to_string(size) + body;
    return raw({.name = "pax", .type = 'x', .size = record.size()}).data(record);
  }
  TarBuilder& gnu_longname(const std::string& name) {
    return raw({.name = "././@LongLink", .type = 'L', .size = name.size() + 1})
        .data(name + std::string(1, '\0'));
  }
  TarBuilder& end() {
    bytes_.append(1024, '\0');
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  static void octal(char* field, std::size_t width, std::uint64_t value) {
    std::snprintf(field, width, "%0*llo", static_cast<int>(width - 1),
                  static_cast<unsigned long long>(value));
  }
  std::string bytes_;
};

}  // namespace atl::templates
