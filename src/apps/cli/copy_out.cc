// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <deque>

#include "apps/cli/copy.h"
#include "apps/cli/local_tree.h"
#include "apps/cli/path_spec.h"
#include "base/text.h"

namespace atl::cli {
namespace {

constexpr std::size_t kMaxItems = 1'000'000;
constexpr std::size_t kMaxDepth = 256;

struct Download {
  std::shared_ptr<GuestClient> guest;
  CopyCount count;
  Progress progress{"copying"};
  std::uint64_t total = 0;  // of the file under way
};

// Writes off the loop, so that a slow disk or reader does not hold up signals.
template <class Write>
Task<Result<void>> take_block(Download& download, std::string_view block, Write write) {
  auto work = [block, write] { return write(block); };
  auto written = co_await download.guest->api().session().blocking().run(work);
  download.count.bytes += block.size();
  download.progress.update_bytes(download.count.bytes, download.total);
  co_return written;
}

Task<Result<void>> fetch_file(Download& download, LocalTree& tree, std::string remote, std::string relative,
                              unsigned mode) {
  CO_TRY(LocalFile file, tree.create(relative));
  auto write = [&file](std::string_view block) { return file.write(block); };
  GuestClient::Sink sink = [&](std::string_view block) { return take_block(download, block, write); };
  auto on_size = [&](std::uint64_t size) { download.total = size > 0 ? download.count.bytes + size : 0; };
  CO_TRY_VOID(co_await download.guest->download(remote, on_size, sink));
  CO_TRY_VOID(file.commit(mode));
  ++download.count.files;
  co_return success();
}

void skip(Download& download, const std::string& path, const char* why) {
  ++download.count.skipped;
  download.progress.clear();
  print_note(fmt::format("skipped {}: {}", printable(path), why));
}

struct Pending {
  std::string remote;
  std::string relative;
  std::size_t depth = 0;
};

Task<Result<void>> fetch_entry(Download& download, LocalTree& tree, const Pending& in,
                               const RemoteEntry& entry, std::deque<Pending>& todo) {
  // Only the name is taken from the answer, and only when it is one plain component.
  bool plain = safe_relative_path(entry.name) && entry.name.find('/') == std::string::npos;
  if (!plain) co_return make_error(Code::kCorrupt, "the sandbox named a file '{}'", printable(entry.name));
  std::string remote = join_path(in.remote, entry.name);
  std::string relative = in.relative.empty() ? entry.name : join_path(in.relative, entry.name);
  if (entry.directory && !entry.link_target.empty()) {
    skip(download, remote, "a link to a directory");
  } else if (entry.directory) {
    if (in.depth >= kMaxDepth)
      co_return make_error(Code::kTooLarge, "{}: more than {} levels deep", printable(remote), kMaxDepth);
    CO_TRY_VOID(tree.make_directory(relative, entry.mode));
    ++download.count.directories;
    Pending next;
    next.remote = remote;
    next.relative = relative;
    next.depth = in.depth + 1;
    todo.push_back(std::move(next));
  } else {
    auto fetched = co_await fetch_file(download, tree, remote, relative, entry.mode);
    bool special = !fetched.ok() &&
                   (fetched.error().code() == Code::kInvalid || fetched.error().code() == Code::kNotFound);
    if (!special) co_return fetched;
    skip(download, remote, fetched.error().message().c_str());
  }
  co_return success();
}

Task<Result<void>> fetch_tree(Download& download, std::string remote, std::string target) {
  CO_TRY(LocalTree tree, LocalTree::open(target));
  ++download.count.directories;
  std::deque<Pending> todo(1);
  todo.front().remote = remote;
  std::size_t items = 0;
  while (!todo.empty()) {
    Pending in = std::move(todo.front());
    todo.pop_front();
    CO_TRY(std::vector<RemoteEntry> entries, co_await download.guest->list(in.remote, 1));
    for (const RemoteEntry& entry : entries) {
      if (++items > kMaxItems) co_return make_error(Code::kTooLarge, "more than {} files", kMaxItems);
      CO_TRY_VOID(co_await fetch_entry(download, tree, in, entry, todo));
    }
  }
  co_return success();
}

bool is_directory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Task<Result<CopyCount>> copy_out_of_sandbox(std::shared_ptr<GuestClient> guest, std::string source,
                                            std::string target) {
  Download download;
  download.guest = guest;
  CO_TRY(RemoteEntry entry, co_await guest->stat(source));
  std::string name = base_name(source);
  if (name.empty()) name = base_name(entry.path);
  bool into = is_directory(target) && safe_relative_path(name);
  if (!into && target.ends_with('/') && !is_directory(target) && !entry.directory) {
    co_return make_error(Code::kNotFound, "there is no directory {}", target);
  }
  if (entry.directory) {
    std::string directory = into ? join_path(target, name) : target;
    CO_TRY_VOID(co_await fetch_tree(download, source, directory));
    co_return download.count;
  }
  std::string directory = into ? target : "";
  std::string file = into ? name : base_name(target);
  std::size_t slash = target.rfind('/');
  if (!into) directory = slash == std::string::npos ? "." : slash == 0 ? "/" : target.substr(0, slash);
  if (!is_directory(directory)) co_return make_error(Code::kNotFound, "there is no directory {}", directory);
  CO_TRY(LocalTree tree, LocalTree::open(directory));
  CO_TRY_VOID(co_await fetch_file(download, tree, source, file, entry.mode));
  co_return download.count;
}

Task<Result<CopyCount>> copy_to_stdout(std::shared_ptr<GuestClient> guest, std::string source) {
  Download download;
  download.guest = guest;
  auto write = [](std::string_view block) { return try_write(STDOUT_FILENO, block); };
  GuestClient::Sink sink = [&](std::string_view block) { return take_block(download, block, write); };
  auto on_size = [&](std::uint64_t size) { download.total = size; };
  CO_TRY_VOID(co_await guest->download(source, on_size, sink));
  download.count.files = 1;
  co_return download.count;
}

}  // namespace atl::cli
