// SPDX-License-Identifier: Apache-2.0
//
// fmt, compiled once. Its templates that are declared `extern` elsewhere are made here (fmt 9 and 10).
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template decltype(dragonbox::to_decimal(0.0F)) dragonbox::to_decimal(float) noexcept;
template decltype(dragonbox::to_decimal(0.0)) dragonbox::to_decimal(double) noexcept;
template locale_ref::locale_ref(const std::locale&);
template std::locale locale_ref::get<std::locale>() const;
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
template void buffer<char>::append(const char*, const char*);
#if FMT_VERSION >= 100000
template void vformat_to(buffer<char>&, string_view, vformat_args<>::type, locale_ref);
#endif
}  // namespace detail
FMT_END_NAMESPACE
