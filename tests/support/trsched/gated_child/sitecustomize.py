"""Imported by every child's interpreter when this folder is on its path: gates its engine."""

from __future__ import annotations

from tests.support.trsched.process_gate import gate_this_process

gate_this_process()
