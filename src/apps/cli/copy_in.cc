// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>

#include <boost/json.hpp>

#include "apps/cli/copy.h"
#include "apps/cli/input_pump.h"
#include "apps/cli/path_spec.h"
#include "base/text.h"

namespace atl::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 256 * 1024;
constexpr std::size_t kBatchBytes = 64 * 1024;  // of paths in one chmod
constexpr std::size_t kMaxItems = 1'000'000;

// What is to be made, collected before anything is sent, so that a directory that cannot be read fails early.
struct Item {
  enum class Kind { kDirectory, kFile, kLink };
  Kind kind;
  std::string local;
  std::string relative;  // below the target; empty for the source itself
  mode_t mode = 0;
  std::uint64_t size = 0;
  std::string link;
};

Result<std::optional<Item>> look_at(const fs::path& path, std::string relative) {
  struct stat info{};
  bool top = relative.empty();
  int failed = top ? ::stat(path.c_str(), &info)
                   : ::lstat(path.c_str(), &info);  // a link named by the user is followed
  if (failed != 0) return Error::from_errno(errno, "look at " + path.string());
  Item item{Item::Kind::kFile, path.string(), std::move(relative), info.st_mode & 0777, 0, ""};
  if (S_ISDIR(info.st_mode)) {
    item.kind = Item::Kind::kDirectory;
  } else if (S_ISREG(info.st_mode)) {
    item.size = static_cast<std::uint64_t>(info.st_size);
  } else if (S_ISLNK(info.st_mode)) {
    std::error_code failure;
    item.kind = Item::Kind::kLink;
    item.link = fs::read_symlink(path, failure).string();
    if (failure) return Error::from_errno(failure.value(), "read the link " + path.string());
  } else {
    return std::optional<Item>();
  }
  return std::optional(std::move(item));
}

Result<std::vector<Item>> collect(const std::string& source, CopyCount& count) {
  std::vector<Item> items;
  TRY(auto top, look_at(source, ""));
  if (!top) return make_error(Code::kInvalid, "{} is neither a file nor a directory", source);
  bool directory = top->kind == Item::Kind::kDirectory;
  items.push_back(std::move(*top));
  if (!directory) return items;
  std::error_code failure;
  fs::recursive_directory_iterator walk(source, failure), end;
  for (; !failure && walk != end; walk.increment(failure)) {
    TRY(auto item, look_at(walk->path(), walk->path().lexically_relative(source).string()));
    if (item)
      items.push_back(std::move(*item));
    else
      ++count.skipped, print_note(fmt::format("skipped {}: neither file, directory nor link",
                                              printable(walk->path().string())));
    if (items.size() > kMaxItems)
      return make_error(Code::kTooLarge, "{} holds more than {} files", source, kMaxItems);
  }
  if (failure) return Error::from_errno(failure.value(), "read directory " + source);
  return items;
}

struct Upload {
  std::shared_ptr<GuestClient> guest;
  CopyCount count;
  std::uint64_t total = 0;
  Progress progress{"copying"};
};

Result<std::string> read_block(int fd, const std::string& name) {
  std::string block(kBlock, '\0');
  ssize_t n = ::read(fd, block.data(), block.size());
  if (n < 0) return Error::from_errno(errno, "read " + name);
  block.resize(static_cast<std::size_t>(n));
  return block;
}

// The next block of an open file, read off the loop. Parameters outlive the transfer: they belong to
// send_file.
Task<Result<std::string>> next_block(Upload& upload, int fd, const std::string& name) {
  auto read = [fd, &name] { return read_block(fd, name); };
  auto block = co_await upload.guest->api().session().blocking().run(std::move(read));
  if (block.ok()) {
    upload.count.bytes += block->size();
    upload.progress.update_bytes(upload.count.bytes, upload.total);
  }
  co_return block;
}

Task<Result<void>> send_file(Upload& upload, std::string local, std::string remote) {
  sys::Fd fd(::open(local.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) co_return Error::from_errno(errno, "open " + local);
  int number = fd.get();
  GuestClient::Source source = [&upload, number, &local] { return next_block(upload, number, local); };
  // Without a length, since the file may still grow or shrink: the body is chunked and ends where the file
  // ends.
  CO_TRY_VOID(co_await upload.guest->upload(remote, std::nullopt, source));
  ++upload.count.files;
  co_return success();
}

Task<Result<void>> run_tool(Upload& upload, std::vector<std::string> words) {
  ProcessSpec spec;
  spec.command = words.front();
  spec.arguments.assign(words.begin() + 1, words.end());
  CO_TRY(auto outcome, co_await upload.guest->capture(std::move(spec), kBlock));
  if (exit_status(outcome.first) == 0) co_return success();
  co_return make_error(Code::kInternal, "'{}' in the sandbox ended with status {}", words.front(),
                       exit_status(outcome.first));
}

// The file API makes files 0644 and directories 0755; other modes are set by chmod in the sandbox, many at a
// time.
Task<Result<void>> set_modes(Upload& upload, const std::map<mode_t, std::vector<std::string>>& by_mode) {
  for (const auto& [mode, paths] : by_mode) {
    std::vector<std::string> words;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (words.empty()) words = {"chmod", fmt::format("{:o}", mode), "--"};
      words.push_back(paths[i]);
      bytes += paths[i].size() + 1;
      if (bytes < kBatchBytes && i + 1 < paths.size()) continue;
      CO_TRY_VOID(co_await run_tool(upload, std::move(words)));
      words.clear();
      bytes = 0;
    }
  }
  co_return success();
}

// Makes the directory and gives its absolute path; one that exists is fine.
Task<Result<std::string>> make_remote_directory(Upload& upload, std::string path) {
  json::value body = json::object({{"path", path}});
  auto made = co_await upload.guest->unary("filesystem.Filesystem/MakeDir", std::move(body));
  if (!made.ok() && made.error().word() != "already_exists") co_return std::move(made).error();
  CO_TRY(RemoteEntry entry, co_await upload.guest->stat(path));
  if (!entry.directory)
    co_return make_error(Code::kConflict, "{} exists in the sandbox and is no directory", printable(path));
  co_return entry.path;
}

Task<Result<void>> send_tree(Upload& upload, std::vector<Item> items, std::string target) {
  CO_TRY(std::string root, co_await make_remote_directory(upload, target));
  std::map<mode_t, std::vector<std::string>> by_mode;
  for (const Item& item : items) {
    std::string remote = item.relative.empty() ? root : join_path(root, item.relative);
    if (item.kind == Item::Kind::kLink) {
      std::vector<std::string> words{"ln", "-sfn", "--", item.link, remote};
      CO_TRY_VOID(co_await run_tool(upload, std::move(words)));
      ++upload.count.files;
      continue;
    }
    bool directory = item.kind == Item::Kind::kDirectory;
    if (directory && !item.relative.empty()) {
      CO_TRY(std::string made, co_await make_remote_directory(upload, remote));
    }
    if (directory)
      ++upload.count.directories;
    else
      CO_TRY_VOID(co_await send_file(upload, item.local, remote));
    if (item.mode != (directory ? 0755U : 0644U)) by_mode[item.mode].push_back(remote);
  }
  co_return co_await set_modes(upload, by_mode);
}

// Where the source goes: below an existing directory under its own name, else to the name that was given.
Task<Result<std::string>> choose_target(std::shared_ptr<GuestClient> guest, std::string source,
                                        std::string target) {
  bool into = target.ends_with('/') || target == "~";
  if (!into) {
    auto entry = co_await guest->stat(target);
    if (!entry.ok() && entry.error().code() != Code::kNotFound) co_return std::move(entry).error();
    into = entry.ok() && entry->directory;
  }
  if (!into) co_return target;
  std::error_code failure;
  std::string name = base_name(source);
  if (name.empty()) name = fs::canonical(source, failure).filename().string();
  co_return name.empty() ? target : join_path(target, name);
}

Task<Result<std::string>> next_from_pump(InputPump& pump, CopyCount& count, Progress& progress) {
  std::string block = co_await pump.next();
  count.bytes += block.size();
  progress.update_bytes(count.bytes, 0);
  co_return block;
}

}  // namespace

Task<Result<CopyCount>> copy_into_sandbox(std::shared_ptr<GuestClient> guest, std::string source,
                                          std::string target) {
  Upload upload;
  upload.guest = guest;
  CO_TRY(std::vector<Item> items, collect(source, upload.count));
  for (const Item& item : items) upload.total += item.size;
  CO_TRY(std::string remote, co_await choose_target(guest, source, target));
  if (items.front().kind == Item::Kind::kDirectory) {
    CO_TRY_VOID(co_await send_tree(upload, std::move(items), remote));
    co_return upload.count;
  }
  Item file = items.front();
  CO_TRY_VOID(co_await send_file(upload, file.local, remote));
  if (file.mode != 0644) {
    CO_TRY(RemoteEntry entry, co_await guest->stat(remote));
    std::map<mode_t, std::vector<std::string>> by_mode;
    by_mode[file.mode].push_back(entry.path);
    CO_TRY_VOID(co_await set_modes(upload, by_mode));
  }
  co_return upload.count;
}

Task<Result<CopyCount>> copy_from_stdin(std::shared_ptr<GuestClient> guest, std::string target) {
  if (is_terminal(STDIN_FILENO))
    co_return make_error(Code::kInvalid, "standard input is a terminal; pipe something into it");
  InputPump pump(guest->api().session().executor(), STDIN_FILENO);
  CopyCount count;
  Progress progress("copying");
  GuestClient::Source source = [&] { return next_from_pump(pump, count, progress); };
  CO_TRY_VOID(co_await guest->upload(target, std::nullopt, source));
  count.files = 1;
  co_return count;
}

}  // namespace atl::cli
