// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// P, C and L as Python gives them, as a RoutingModel.
#pragma once

#include <string>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "trcore/routing_model.hpp"

namespace trcore::python {

namespace py = pybind11;

using Floats = py::array_t<double, py::array::c_style | py::array::forcecast>;

inline Floats floats(const char* name, const py::object& values) {
    auto array = Floats::ensure(values);  // clears Python's error
    if (!array) throw py::value_error(std::string(name) + ": must be an array of numbers");
    return array;
}

inline std::vector<double> flat(const Floats& array) {
    return {array.data(), array.data() + array.size()};
}

// P: [M, M] or [runs, M, M]; C: [M, M]; L: M sequences.
inline RoutingModel routing_model(const py::object& p, const py::object& c, const py::object& l) {
    const Floats routing = floats("P", p);
    const auto dimensions = routing.ndim();
    if ((dimensions != 2 && dimensions != 3) || routing.size() == 0 ||
        routing.shape(dimensions - 1) != routing.shape(dimensions - 2)) {
        throw py::value_error("P: must have the shape [M, M] or [runs, M, M]");
    }
    const auto models = routing.shape(dimensions - 1);
    const Floats tokens = floats("C", c);
    if (tokens.ndim() != 2 || tokens.shape(0) != models || tokens.shape(1) != models) {
        throw py::value_error("C: must have the shape [M, M], as P");
    }
    if (!py::isinstance<py::iterable>(l)) {
        throw py::value_error("L: must hold one sequence of seconds for each model");
    }
    std::vector<std::vector<double>> seconds;
    for (const py::handle of_model : l) {
        const Floats times = floats("L", py::reinterpret_borrow<py::object>(of_model));
        if (times.ndim() != 1) {
            throw py::value_error("L: must hold one sequence of seconds for each model");
        }
        seconds.push_back(flat(times));
    }
    return {static_cast<std::size_t>(models), flat(routing), flat(tokens), std::move(seconds)};
}

// [count, M] from one vector.
inline py::array_t<std::int64_t> rows(const std::vector<std::int64_t>& values, std::size_t models) {
    const std::vector<py::ssize_t> shape{static_cast<py::ssize_t>(values.size() / models),
                                         static_cast<py::ssize_t>(models)};
    return py::array_t<std::int64_t>(shape, values.data());
}

inline py::array_t<double> column(const std::vector<double>& values) {
    return py::array_t<double>(static_cast<py::ssize_t>(values.size()), values.data());
}

}  // namespace trcore::python
