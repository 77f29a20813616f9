// SPDX-License-Identifier: Apache-2.0
// judged as src/control/sample.cc
// good
Task<void> a() { co_await run(x); }
// good
Task<void> a() {
  auto work = [t] { use(t); };
  co_await run(std::move(work));
}
// good
Task<void> a() {
  T value = co_await f(std::string("a") + x, make(1));
  if (co_await more()) {
    x();
  }
}
// good
Task<void> a() {
  for (auto& item : co_await list()) {
    use(item);
  }
}
// good
Task<void> a() {
  CO_TRY(auto x, co_await f(y));
  CO_TRY_VOID(co_await g(std::move(x)));
  while (!done) co_await wait(step);
  co_return co_await h(values[2]);
}
// good
Task<int> a() {
  switch (co_await kind()) {
    case 1: co_return 2;
  }
  int x = c ? 1 : 2;
  Options o{.name = "a"};
  co_return co_await f(o);
}
// bad coawait
Task<void> a() { co_await run([t] { use(t); }); }
// bad coawait
Task<void> a() { co_await co_spawn(ex, [t]() -> awaitable<void> { co_return; }, use_awaitable); }
// bad coawait
Task<void> a() { co_await f({.name = "a", .t = T()}); }
// bad coawait
Task<void> a() { co_await f(Opts{1, 2}); }
// bad coawait
Task<void> a() { co_await f({k, t}); }
// bad coawait
Task<void> a() { Opts o{.name = "x", .t = co_await g()}; }
// bad coawait
Task<void> a() { co_await M{1}.go(); }
// bad coawait
Task<void> a() { co_await each([x, &y](int z) { y += z; }); }
// bad coawait
Task<void> a() { auto x = T{1} + co_await g(); }
// bad coawait
Task<void> a() { co_await f(std::function<int()>([=] { return x; })); }
// good
Task<void> a() { co_await each([&x](int y) { x += y; }); }
// good
Task<void> a() {
  [[maybe_unused]] auto [failed, size] = co_await read(x);
  auto y = co_await run([this]() -> Result<void> {
    if (a) return f({1});
    return b ? c : d;
  });
}
// good
TEST(A, B) {
  run(loop, [](Stream& s) -> async::Task<> { EXPECT_TRUE((co_await s.write_all("x")).ok()); }(*b));
}
// good
Task<void> a() {
  Options options{.x = 1};
  try {
    co_await f(options);
  } catch (...) {
  }
}
// bad coawait
Task<void> a() { co_await f([x] { return x; }()); }
// bad coawait
Task<void> a() { T x = c ? co_await g() : T(); }
// bad coawait
Task<void> a() { co_await f({T(), T()}); }
// bad coawait
Task<void> a() { co_await f(std::vector<T>{a, b}); }
// bad coawait
Task<void> a() {
  CO_TRY(auto x, co_await f(Opts{.a = 1}));
}
// bad coawait
Task<void> a() {
  if (co_await f(c ? 1 : 2)) x();
}
