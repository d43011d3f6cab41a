// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// numpy's arrays as spans, without copies: those of an assignment and of why_not.
#pragma once

#include <span>
#include <string>
#include <type_traits>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace trcore::python {

namespace py = pybind11;

// The memory of an array of exactly this type and number of dimensions; None gives nothing.
template <class T, class Kind = std::remove_const_t<T>>
std::span<T> span_of(const char* name, const py::handle& given, py::ssize_t dimensions,
                     const char* what, py::ssize_t columns = -1) {
    if (given.is_none()) return {};
    constexpr bool kWritten = !std::is_const_v<T>;
    if (py::isinstance<py::array>(given)) {
        const auto array = py::reinterpret_borrow<py::array>(given);
        if (array.dtype().is(py::dtype::of<Kind>()) && array.ndim() == dimensions &&
            (array.flags() & py::array::c_style) != 0 && (!kWritten || array.writeable()) &&
            (columns < 0 || array.shape(dimensions - 1) == columns)) {
            return {static_cast<T*>(const_cast<void*>(array.data())),
                    static_cast<std::size_t>(array.size())};
        }
    }
    throw py::value_error(std::string(name) + ": must be a contiguous " +
                          (kWritten ? "and writable " : "") + "array of " + what);
}

}  // namespace trcore::python
