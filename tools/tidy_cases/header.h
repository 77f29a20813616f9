// SPDX-License-Identifier: Apache-2.0
// judged as src/model/sample.h
// good

// Says what it is.
struct A {
  int x;
};
// good

int f(int a);  // adds one
// good

// A group of two.
int f(int a);
int g(int a);
// bad comment

// Says what it is.
struct A {
  int x;
};

struct B {
  int x;
};
// bad comment

// Says what it is.
int f(int a);

Result<int> parse(std::string_view text);
// good

struct A;  // a name alone says nothing new
