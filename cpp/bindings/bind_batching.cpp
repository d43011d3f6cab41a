// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "trcore/batching.hpp"

namespace py = pybind11;

namespace trcore::python {
namespace {

using Thresholds = std::vector<std::int64_t>;

}  // namespace

void bind_batching(py::module_& module) {
    module.def("deadlock_free", [](const Thresholds& thresholds, std::int64_t active) {
        return deadlock_free(thresholds, active); }, py::arg("thresholds"), py::arg("active"));
    module.def("effective_thresholds", [](const Thresholds& thresholds, std::int64_t active) {
        return effective_thresholds(thresholds, active); },
        py::arg("thresholds"), py::arg("active"));
    module.def("may_start", &may_start, py::arg("waiting"), py::arg("threshold"));
}

}  // namespace trcore::python
