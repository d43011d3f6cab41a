// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include <pybind11/pybind11.h>

#include "trcore/philox.hpp"

namespace py = pybind11;

namespace trcore::python {

void bind_philox(py::module_& module) {
    // Keeps the GIL: a draw takes less than giving it up.
    module.def("uniform", &uniform, py::arg("seed"), py::arg("position"), py::arg("stream"));
}

}  // namespace trcore::python
