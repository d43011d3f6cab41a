"""A cluster of instances on a virtual clock, balanced by the policies that balance a real one."""
