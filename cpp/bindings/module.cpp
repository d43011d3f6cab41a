// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// The extension module trcore._core: one bind_*.cpp per concept.
#include <pybind11/pybind11.h>

namespace trcore::python {
void bind_assign(pybind11::module_& module);
void bind_batching(pybind11::module_& module);
void bind_dtmc(pybind11::module_& module);
void bind_instance_view(pybind11::module_& module);
void bind_peer_ring(pybind11::module_& module);
void bind_pending_table(pybind11::module_& module);
void bind_philox(pybind11::module_& module);
void bind_simulation(pybind11::module_& module);
void bind_why_not(pybind11::module_& module);
}  // namespace trcore::python

PYBIND11_MODULE(_core, module) {
    module.doc() = "The C++ core of trcore; use it through the package trcore.";
    trcore::python::bind_instance_view(module);
    trcore::python::bind_assign(module);
    trcore::python::bind_batching(module);
    trcore::python::bind_dtmc(module);
    trcore::python::bind_peer_ring(module);
    trcore::python::bind_pending_table(module);
    trcore::python::bind_philox(module);
    trcore::python::bind_simulation(module);
    trcore::python::bind_why_not(module);
}
