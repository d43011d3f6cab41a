// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "trcore/instance_view.hpp"

namespace py = pybind11;

namespace trcore::python {
namespace {

using Columns = InstanceView::Columns;

// The column's own memory as Kind, which the array keeps alive through the view.
template <class Kind, class T>
void bind_column(py::class_<InstanceView>& view, const char* name,
                 std::vector<T> Columns::*column) {
    static_assert(sizeof(Kind) == sizeof(T));
    view.def_property_readonly(name, [column](const py::object& self) {
        std::vector<T>& values = self.cast<InstanceView&>().columns.*column;
        return py::array(py::dtype::of<Kind>(), {values.size()}, {sizeof(T)}, values.data(), self);
    });
}

std::size_t count(std::int64_t instances) {
    return instances < 0 ? 0 : static_cast<std::size_t>(instances);
}

void add(InstanceView& view, std::int64_t instance, std::int32_t running, std::int32_t waiting,
         double pending_decode, double pending_prefill) {
    if (instance < 0) throw py::index_error("instance: there is no " + std::to_string(instance));
    view.add(static_cast<std::size_t>(instance),
             {running, waiting, pending_decode, pending_prefill});
}

}  // namespace

// Everything here keeps the GIL: it is the lock that a view asks for.
void bind_instance_view(py::module_& module) {
    py::class_<InstanceView> view(module, "InstanceView");
    view.def(py::init([](std::int64_t instances) {
                 return std::make_unique<InstanceView>(count(instances)); }), py::arg("instances"))
        .def("__len__", &InstanceView::size)
        .def("add", &add, py::arg("instance"), py::kw_only(), py::arg("running") = 0,
             py::arg("waiting") = 0, py::arg("pending_decode") = 0.0,
             py::arg("pending_prefill") = 0.0)
        .def("__repr__", [](const InstanceView& self) {
            return "<trcore.InstanceView of " + std::to_string(self.size()) + " instances>"; });
    bind_column<std::int32_t>(view, "model", &Columns::model);
    bind_column<double>(view, "input_price", &Columns::input_price);
    bind_column<double>(view, "output_price", &Columns::output_price);
    bind_column<double>(view, "tpot_s", &Columns::tpot_s);
    bind_column<double>(view, "prior_tpot_s", &Columns::prior_tpot_s);
    bind_column<double>(view, "prefill_rate", &Columns::prefill_rate);
    bind_column<std::int32_t>(view, "slots", &Columns::slots);
    bind_column<std::int32_t>(view, "running", &Columns::running);
    bind_column<std::int32_t>(view, "waiting", &Columns::waiting);
    bind_column<double>(view, "pending_decode", &Columns::pending_decode);
    bind_column<double>(view, "pending_prefill", &Columns::pending_prefill);
    bind_column<std::int64_t>(view, "last_assigned", &Columns::last_assigned);
    bind_column<bool>(view, "healthy", &Columns::healthy);
    bind_column<bool>(view, "draining", &Columns::draining);
    bind_column<std::int32_t>(view, "context_window", &Columns::context_window);
    bind_column<std::uint32_t>(view, "capabilities", &Columns::capabilities);
}

}  // namespace trcore::python
