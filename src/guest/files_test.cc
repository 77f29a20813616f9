// SPDX-License-Identifier: Apache-2.0
//
// File contents over REST, and paths over RPC, against a real directory.
#include <sys/xattr.h>

#include "guest/guest_test_util.h"

namespace atl::guest {
namespace {

using ::testing::HasSubstr;

class GuestFiles : public GuestFixture {
 protected:
  http::Answer upload(const std::string& name, const std::string& body, http::Headers headers = {},
                      const std::string& query = "") {
    headers.add("content-type", "application/octet-stream");
    return call("POST", "/files?path=" + http::percent_encode(path(name)) + query, std::move(headers), body);
  }
  http::Answer download(const std::string& name, http::Headers headers = {}) {
    return call("GET", "/files?path=" + http::percent_encode(path(name)), std::move(headers));
  }
  http::Answer fs_rpc(const std::string& method, const json::object& message, http::Headers headers = {}) {
    return rpc("/filesystem.Filesystem/" + method, json::serialize(message), std::move(headers));
  }
  // Names below the test's directory, dot files too.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(directory_))
      out.push_back(entry.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }
  static std::string pattern(std::size_t size) {
    std::string out(size, '\0');
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>(i * 31 >> 3);
    return out;
  }
  mode_t mode(const std::string& name) const {
    struct stat st = {};
    ::stat(path(name).c_str(), &st);
    return st.st_mode & 07777;
  }
};

TEST_F(GuestFiles, ComeBackAsTheyWentInAllSizes) {
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, kFileBuffer - 1, kFileBuffer, kFileBuffer + 1,
                           3 * kFileBuffer, std::size_t{5'000'001}}) {
    std::string body = pattern(size);
    for (const char* round : {"new", "replaced"}) {
      auto answer = upload("a.bin", body);
      EXPECT_EQ(answer.head.status, 200) << size << round << answer.body;
      EXPECT_EQ(read("a.bin"), body) << size << round;
      auto got = download("a.bin");
      EXPECT_EQ(got.body, body) << size << round;
      EXPECT_EQ(got.head.headers.find("content-length"), std::to_string(size));
    }
    fs::remove(path("a.bin"));
  }
}

TEST_F(GuestFiles, AnswersWithPathNameAndTypeOnly) {
  EXPECT_EQ(upload("d/a b.txt", "x").body,
            fmt::format(R"([{{"path":"{}","name":"a b.txt","type":"file"}}])", path("d/a b.txt")));
  EXPECT_EQ(mode("d/a b.txt"), 0644u);
  EXPECT_EQ(mode("d"), 0755u);
}

TEST_F(GuestFiles, MultipartTakesWholePathsAndManyFiles) {
  std::string body;
  for (const char* name : {"x/\xc3\xbc %22q%22.txt", "y.txt"})
    body += "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + path(name) + "\"\r\n\r\n" +
            name + "\r\n";
  body += "--b\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nignored\r\n--b--\r\n";
  auto answer = call("POST", "/files", {{"content-type", "multipart/form-data; boundary=b"}}, body);
  EXPECT_EQ(answer.head.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body).as_array().size(), 2u);
  EXPECT_EQ(read("x/\xc3\xbc \"q\".txt"), "x/\xc3\xbc %22q%22.txt");
  EXPECT_EQ(read("y.txt"), "y.txt");
}

TEST_F(GuestFiles, MultipartWithAPathNeedsNoFilename) {
  std::string body = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\ntext\r\n--b--\r\n";
  http::Headers headers{{"content-type", "multipart/form-data; boundary=b"}};
  EXPECT_EQ(call("POST", "/files?path=" + path("p.txt"), headers, body).head.status, 200);
  EXPECT_EQ(read("p.txt"), "text");
  EXPECT_EQ(call("POST", "/files", headers, body).head.status, 400);
}

TEST_F(GuestFiles, OneTargetTwiceIsRefused) {
  std::string part =
      "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + path("x") + "\"\r\n\r\n1\r\n";
  std::string same = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + path("y/../x") +
                     "\"\r\n\r\n2\r\n";
  EXPECT_EQ(
      call("POST", "/files", {{"content-type", "multipart/form-data; boundary=b"}}, part + same + "--b--")
          .head.status,
      400);
}

TEST_F(GuestFiles, ABodyThatBreaksOffLeavesNothingAndHarmsNothing) {
  write("old.txt", "old content");
  std::string head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"";
  std::string big = pattern(2 * kFileBuffer);
  for (const char* name : {"old.txt", "new.txt"}) {
    auto answer = call("POST", "/files", {{"content-type", "multipart/form-data; boundary=b"}},
                       head + path(name) + "\"\r\n\r\n" + big);
    EXPECT_EQ(answer.head.status, 400);
  }
  EXPECT_EQ(read("old.txt"), "old content");
  EXPECT_THAT(names(), ::testing::ElementsAre("old.txt"));
  EXPECT_EQ(upload("old.txt", "not gzip", {{"content-encoding", "gzip"}}).head.status, 400);
  EXPECT_EQ(read("old.txt"), "old content");
}

Task<> break_off(std::uint16_t port, std::string request) {
  auto stream = co_await dial(port);
  if (!stream.ok()) co_return;
  [[maybe_unused]] auto sent = co_await (*stream)->write_all(request);
  (*stream)->close(net::Stream::Close::kReset);
}

TEST_F(GuestFiles, AClientThatVanishesAtAnyByteLeavesNoFile) {
  std::string body = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + path("v.txt") +
                     "\"\r\n\r\nabc\r\n--b--\r\n";
  std::string request = fmt::format(
      "POST /files HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: "
      "{}\r\n\r\n",
      body.size());
  std::size_t closing = body.find("\r\n--b--");
  for (std::size_t size = 0; size < closing; ++size) await(break_off(port_, request + body.substr(0, size)));
  std::string large =
      fmt::format(
          "POST /files?path={} HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
          "Content-Length: 9000000\r\n\r\n",
          path("w.bin")) +
      pattern(3 * kFileBuffer);
  await(break_off(port_, large));
  EXPECT_EQ(call("GET", "/health").head.status, 204);
  EXPECT_THAT(names(), ::testing::IsEmpty());
}

TEST_F(GuestFiles, ReplacingKeepsInodeModeAndLinks) {
  write("f", "old");
  fs::create_hard_link(path("f"), path("g"));
  ::chmod(path("f").c_str(), 04751);
  for (std::size_t size : {std::size_t{10}, 2 * kFileBuffer}) {
    EXPECT_EQ(upload("f", pattern(size)).head.status, 200);
    EXPECT_EQ(read("g"), pattern(size)) << "the other name still means the same file";
    EXPECT_EQ(mode("f"), 0751u) << "a set-user-id bit does not survive new content";
  }
}

TEST_F(GuestFiles, LinksAreFollowedAndDanglingOnesRefused) {
  write("real", "1");
  fs::create_symlink("real", path("link"));
  fs::create_symlink("nowhere", path("dangling"));
  EXPECT_EQ(upload("link", "22").head.status, 200);
  EXPECT_EQ(read("real"), "22");
  EXPECT_EQ(upload("dangling", "x").head.status, 400);
  fs::create_symlink("loop", path("loop"));
  EXPECT_EQ(upload("loop", "x").head.status, 400);
  EXPECT_EQ(download("loop").head.status, 400);
}

TEST_F(GuestFiles, RefusesWhatIsNotARegularFile) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0666), 0);
  fs::create_directory(path("dir"));
  EXPECT_EQ(upload("fifo", "x").head.status, 400);
  EXPECT_EQ(download("fifo").head.status, 400);
  EXPECT_EQ(upload("dir", "x").head.status, 400);
  EXPECT_EQ(download("dir").body,
            fmt::format(R"({{"code":400,"message":"path '{}' is a directory"}})", path("dir")));
  for (const char* target :
       {"/proc/self/mem", "/proc/sys/kernel/hostname", "/dev/null", "/proc/self/fd/1", "/proc/self/exe"}) {
    auto answer = call("POST", std::string("/files?path=") + target,
                       {{"content-type", "application/octet-stream"}}, "x");
    EXPECT_THAT(answer.head.status, ::testing::AnyOf(400, 403)) << target << answer.body;
  }
  EXPECT_EQ(call("GET", "/files?path=/proc/self/root/etc/passwd").head.status, 400)
      << "magic links are not followed";
}

TEST_F(GuestFiles, ReadsFilesOfProcThatHaveNoSize) {
  auto answer = call("GET", "/files?path=/proc/version");
  EXPECT_EQ(answer.head.status, 200);
  EXPECT_THAT(answer.body, HasSubstr("Linux"));
}

TEST_F(GuestFiles, MissingFilesSaySo) {
  EXPECT_EQ(download("nope").body,
            fmt::format(R"({{"code":404,"message":"path '{}' does not exist"}})", path("nope")));
  EXPECT_EQ(call("GET", "/files?path=a&username=nosuchuser").body,
            R"({"code":401,"message":"invalid username: 'nosuchuser'"})");
  EXPECT_EQ(call("GET", "/files?path=%00").head.status, 400);
  EXPECT_EQ(call("GET", "/files?path=%ff").head.status, 400);
  EXPECT_EQ(call("GET", "/files?path=" + std::string(5000, 'a')).head.status, 400);
}

TEST_F(GuestFiles, ServesRanges) {
  std::string body = pattern(1'000'000);
  write("r", body);
  auto answer = download("r", {{"range", "bytes=10-300009"}, {"accept-encoding", "gzip"}});
  EXPECT_EQ(answer.head.status, 206);
  EXPECT_EQ(answer.head.headers.find("content-range"), "bytes 10-300009/1000000");
  EXPECT_EQ(answer.body, body.substr(10, 300'000));
  EXPECT_EQ(download("r", {{"range", "bytes=-5"}}).body, body.substr(999'995));
  EXPECT_EQ(download("r", {{"range", "bytes=1000000-"}}).head.status, 416);
  EXPECT_EQ(download("r", {{"range", "bytes=5-1"}}).body, body);
}

TEST_F(GuestFiles, CompressesWhenAskedAndWorthIt) {
  std::string text(1'000'000, 'z');
  write("z.txt", text);
  auto answer = download("z.txt", {{"accept-encoding", "gzip, deflate"}});
  EXPECT_EQ(answer.head.headers.find("content-encoding"), "gzip");
  std::string out(text.size() + 10, '\0');
  std::string_view packed = answer.body;
  auto size = Inflater().run(packed, out);
  ASSERT_TRUE(size.ok());
  EXPECT_EQ(out.substr(0, *size), text);
  EXPECT_EQ(download("z.txt", {{"accept-encoding", "identity;q=0"}}).head.status, 406);
  write("empty", "");
  auto empty = download("empty", {{"accept-encoding", "gzip, deflate"}});
  EXPECT_EQ(empty.head.headers.find("content-length"), "0");
  EXPECT_EQ(empty.head.headers.find("content-disposition"), "inline; filename=\"empty\"");
}

TEST_F(GuestFiles, TakesCompressedUploads) {
  std::string text = pattern(3'000'000), packed;
  Deflater deflater;
  deflater.run(text, Deflater::Last::kYes, packed);
  EXPECT_EQ(upload("g", packed, {{"content-encoding", "gzip"}}).head.status, 200);
  EXPECT_EQ(read("g"), text);
  EXPECT_EQ(upload("h", packed.substr(0, packed.size() / 2), {{"content-encoding", "gzip"}}).head.status,
            400);
  EXPECT_FALSE(fs::exists(path("h")));
  EXPECT_EQ(upload("h", "x", {{"content-encoding", "br"}}).head.status, 400);
}

TEST_F(GuestFiles, MetadataIsReplacedAsAWhole) {
  std::string probe = path("probe");
  write("probe", "");
  if (::setxattr(probe.c_str(), "user.e2b.a", "b", 1, 0) != 0) GTEST_SKIP() << "no user attributes here";
  auto answer = upload("m", "x", {{"x-metadata-foo", "bar"}, {"x-metadata-k2", "v2"}});
  EXPECT_THAT(answer.body, HasSubstr(R"("metadata":{"foo":"bar","k2":"v2"})"));
  EXPECT_THAT(fs_rpc("Stat", {{"path", path("m")}}).body, HasSubstr(R"("metadata":{"foo":"bar","k2":"v2"})"));
  EXPECT_THAT(upload("m", "x", {{"x-metadata-foo", "2"}}).body, HasSubstr(R"("metadata":{"foo":"2"})"));
  EXPECT_THAT(upload("m", "x").body, ::testing::Not(HasSubstr("metadata")));
  EXPECT_THAT(fs_rpc("Stat", {{"path", path("m")}}).body, ::testing::Not(HasSubstr("metadata")));
}

TEST_F(GuestFiles, ComposeJoinsAndRemovesTheParts) {
  write("1", "one ");
  write("2", "two");
  json::object request{{"source_paths", {path("1"), path("2")}}, {"destination", path("out/all")}};
  auto answer =
      call("POST", "/files/compose", {{"content-type", "application/json"}}, json::serialize(request));
  EXPECT_EQ(answer.body, fmt::format(R"({{"path":"{}","name":"all","type":"file"}})", path("out/all")));
  EXPECT_EQ(read("out/all"), "one two");
  EXPECT_FALSE(fs::exists(path("1")));
  EXPECT_EQ(call("POST", "/files/compose", {}, json::serialize(request)).head.status, 404);
  EXPECT_EQ(call("POST", "/files/compose", {}, R"({"source_paths":[],"destination":"x"})").head.status, 400);
}

TEST_F(GuestFiles, ActAsTheUserAndNeverFurtherThroughLinks) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  write("secret", "root only");
  ::chmod(path("secret").c_str(), 0600);
  auto as_nobody = [&](const std::string& target, const std::string& body) {
    return call("POST", "/files?username=nobody&path=" + path(target),
                {{"content-type", "application/octet-stream"}}, body);
  };
  ASSERT_EQ(::symlink("secret", path("trap").c_str()), 0);
  ASSERT_EQ(::lchown(path("trap").c_str(), 65534, 65534), 0);
  EXPECT_EQ(as_nobody("trap", "overwritten").head.status, 403);
  EXPECT_EQ(call("GET", "/files?username=nobody&path=" + path("trap")).head.status, 403);
  EXPECT_EQ(read("secret"), "root only");
  // The same file by its own name is served, as E2B's clients expect.
  EXPECT_EQ(call("GET", "/files?username=nobody&path=" + path("secret")).body, "root only");
  // A directory that only root may write to: the file is made there and given to the user.
  fs::create_directory(path("rootdir"));
  EXPECT_EQ(as_nobody("rootdir/sub/new.txt", "x").head.status, 200);
  struct stat st = {};
  ASSERT_EQ(::stat(path("rootdir/sub/new.txt").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 65534u);
  ASSERT_EQ(::stat(path("rootdir/sub").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 65534u);
  EXPECT_EQ(as_nobody("rootdir/sub/large.bin", pattern(2 * kFileBuffer)).head.status, 200);
  // As root, a file with a second name could be anybody's.
  fs::create_hard_link(path("secret"), path("second"));
  EXPECT_EQ(as_nobody("second", "overwritten").head.status, 403);
  EXPECT_EQ(read("secret"), "root only");
}

TEST_F(GuestFiles, StatTellsWhatALinkMeans) {
  fs::create_directory(path("d"));
  fs::create_symlink("d", path("l"));
  auto entry = json::parse(fs_rpc("Stat", {{"path", path("l")}}).body).at("entry").as_object();
  EXPECT_EQ(text(entry, "type"), "FILE_TYPE_DIRECTORY");
  EXPECT_EQ(text(entry, "symlinkTarget"), path("d"));
  EXPECT_EQ(text(entry, "permissions").front(), 'L');
  auto missing = fs_rpc("Stat", {{"path", path("none")}});
  EXPECT_EQ(missing.head.status, 404);
  EXPECT_EQ(text(json::parse(missing.body).as_object(), "code"), "not_found");
}

TEST_F(GuestFiles, ListGoesDepthFirstInOrder) {
  fs::create_directories(path("s1/s11"));
  fs::create_directories(path("s2"));
  write("f.txt", "x");
  write("s1/s11/deep", "x");
  fs::create_symlink("..", path("s2/up"));
  auto names_to = [&](std::size_t depth) {
    std::string out;
    auto answer = fs_rpc("ListDir", {{"path", directory_}, {"depth", depth}});
    json::value list = json::parse(answer.body);
    for (auto& entry : list.at("entries").as_array()) out += text(entry.as_object(), "name") + " ";
    return out;
  };
  EXPECT_EQ(names_to(1), "f.txt s1 s2 ");
  EXPECT_EQ(names_to(0), "f.txt s1 s2 ");
  EXPECT_EQ(names_to(9), "f.txt s1 s11 deep s2 up ");
  EXPECT_EQ(fs_rpc("ListDir", {{"path", path("f.txt")}}).head.status, 400);
  EXPECT_EQ(fs_rpc("ListDir", {{"path", path("none")}}).head.status, 404);
}

TEST_F(GuestFiles, MakeDirTellsWhatWasThere) {
  EXPECT_EQ(fs_rpc("MakeDir", {{"path", path("a/b/c")}}).head.status, 200);
  EXPECT_EQ(fs_rpc("MakeDir", {{"path", path("a/b/c")}}).head.status, 409);
  write("file", "x");
  EXPECT_EQ(fs_rpc("MakeDir", {{"path", path("file")}}).head.status, 400);
  EXPECT_EQ(fs_rpc("MakeDir", {{"path", path("file/x")}}).head.status, 400);
}

TEST_F(GuestFiles, MoveMakesParents) {
  write("a", "x");
  auto answer = fs_rpc("Move", {{"source", path("a")}, {"destination", path("n/m/b")}});
  EXPECT_EQ(text(json::parse(answer.body).at("entry").as_object(), "path"), path("n/m/b"));
  EXPECT_EQ(read("n/m/b"), "x");
  EXPECT_EQ(fs_rpc("Move", {{"source", path("a")}, {"destination", path("q/r")}}).head.status, 404);
  EXPECT_FALSE(fs::exists(path("q"))) << "a missing source makes no parents";
}

TEST_F(GuestFiles, RemoveTakesDeepTreesAndLeavesLinkTargets) {
  fs::create_directory(path("keep"));
  write("keep/file", "x");
  std::string deep = path("t");
  for (int i = 0; i < 200; ++i) deep += "/d";
  fs::create_directories(deep);
  fs::create_directory_symlink(path("keep"), path("t/link"));
  EXPECT_EQ(fs_rpc("Remove", {{"path", path("t")}}).body, "{}");
  EXPECT_FALSE(fs::exists(path("t")));
  EXPECT_EQ(read("keep/file"), "x");
  EXPECT_EQ(fs_rpc("Remove", {{"path", path("t")}}).body, "{}") << "a missing path is fine";
  EXPECT_EQ(fs_rpc("Remove", {{"path", "/"}}).head.status, 400);
}

class GuestWatch : public GuestFiles {
 protected:
  // Reads events of a watch until `wanted` ("CREATE name") has come.
  std::vector<std::string> until(LiveStream& live, const std::string& wanted) {
    std::vector<std::string> seen;
    for (;;) {
      json::object message = await(live.next());
      if (message.empty()) return seen;
      auto* event = message.if_contains("filesystem");
      if (event == nullptr) continue;
      seen.push_back(text(event->as_object(), "type").substr(11) + " " + text(event->as_object(), "name"));
      if (seen.back() == wanted) return seen;
    }
  }
};

TEST_F(GuestWatch, TellsChangesOfFiles) {
  write("f", "1");
  LiveStream live(client_, "/filesystem.Filesystem/WatchDir",
                  json::serialize(json::object{{"path", directory_}}));
  EXPECT_EQ(json::serialize(await(live.next())), R"({"start":{}})");
  upload("f", "2");
  EXPECT_THAT(until(live, "WRITE f"), ::testing::Contains("WRITE f"));
  upload("large", pattern(2 * kFileBuffer));
  auto seen = until(live, "WRITE large");
  // KERNEL: equal events are merged only while they wait in the queue (inotify(7)): one upload may be told as
  // several writes, the rest of them after the first was read.
  std::erase(seen, "WRITE f");
  EXPECT_THAT(seen, ::testing::ElementsAre("CREATE large", "WRITE large"));
  ::chmod(path("f").c_str(), 0600);
  fs::rename(path("f"), path("g"));
  fs::remove(path("g"));
  EXPECT_THAT(until(live, "REMOVE g"), ::testing::ElementsAre("CHMOD f", "RENAME f", "CREATE g", "REMOVE g"));
  live.drop();
}

TEST_F(GuestWatch, FollowsNewDirectoriesWithoutLosingTheirFiles) {
  LiveStream live(
      client_, "/filesystem.Filesystem/WatchDir",
      json::serialize(json::object{{"path", directory_}, {"recursive", true}, {"includeEntry", true}}));
  await(live.next());
  for (int i = 0; i < 50; ++i) {
    std::string name = "n" + std::to_string(i);
    fs::create_directories(path(name + "/x/y"));
    write(name + "/x/y/f", "1");
    auto seen = until(live, "WRITE " + name + "/x/y/f");
    EXPECT_THAT(seen, ::testing::Contains("CREATE " + name + "/x/y/f"));
    EXPECT_EQ(std::count(seen.begin(), seen.end(), "CREATE " + name + "/x"), 1) << "told once";
  }
  live.drop();
}

TEST_F(GuestWatch, PolledWatchersKeepEventsUntilTheyAreAsked) {
  auto made = fs_rpc("CreateWatcher", {{"path", directory_}});
  std::string id = text(json::parse(made.body).as_object(), "watcherId");
  ASSERT_FALSE(id.empty());
  write("p", "1");
  std::string all;
  EXPECT_TRUE(eventually([&] {
    all += fs_rpc("GetWatcherEvents", {{"watcherId", id}}).body;
    return all.find(R"({"name":"p","type":"EVENT_TYPE_WRITE"})") != std::string::npos;
  })) << all;
  EXPECT_EQ(fs_rpc("GetWatcherEvents", {{"watcherId", id}}).body, R"({"events":[]})");
  EXPECT_EQ(fs_rpc("RemoveWatcher", {{"watcherId", id}}).body, "{}");
  EXPECT_EQ(fs_rpc("GetWatcherEvents", {{"watcherId", id}}).head.status, 404);
}

TEST_F(GuestWatch, NeedsADirectory) {
  write("f", "x");
  EXPECT_EQ(fs_rpc("CreateWatcher", {{"path", path("none")}}).head.status, 404);
  EXPECT_EQ(fs_rpc("CreateWatcher", {{"path", path("f")}}).head.status, 400);
}

TEST_F(GuestWatch, WatchersAreBounded) {
  for (std::size_t i = 0; i < kMaxWatchers; ++i)
    ASSERT_EQ(fs_rpc("CreateWatcher", {{"path", directory_}}).head.status, 200) << i;
  EXPECT_EQ(fs_rpc("CreateWatcher", {{"path", directory_}}).head.status, 429);
}

}  // namespace
}  // namespace atl::guest
